import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';

const EXAMPLE = fileURLToPath(new URL('../../examples/rest', import.meta.url));
const LARGE = '9007199254740993';
const run = promisify(execFile);

describe('the example of generated REST clients, installed as its README says', () => {
  let gateway: Gateway;
  let folder: string;
  let env: NodeJS.ProcessEnv;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rest-example-'));
    await cp(EXAMPLE, folder, { recursive: true, filter: (path) => !/\/(?:node_modules|generated)$/.test(path) });
    gateway = await startGateway('server');
    await gateway.sql(
      `INSERT INTO pets (id, name, category_id, status) VALUES (${LARGE}, 'Deep', 9223372036854775807, 'sold')`,
    );
    env = { ...process.env, NODE_ENV: '', STORE_URL: gateway.url, STORE_KEY: (await gateway.createKey()).key };
    await npm('install', '--no-audit', '--no-fund', '--prefer-offline');
  });
  afterAll(async () => {
    await gateway.close();
    await rm(folder, { recursive: true, force: true });
  });

  const npm = (...args: string[]) => run('npm', args, { cwd: folder, env });

  it('makes clients whose types fit, and which read and write identifiers exactly', async () => {
    const { stdout } = await npm('--silent', 'start');
    const deep = (quote: string, suffix: string) =>
      `sold [\n  {\n    id: ${quote}${LARGE}${quote}${suffix},\n    name: 'Deep',\n    categoryId: ${quote}9223372036854775807${quote}${suffix},\n    status: 'sold'\n  }\n]`;
    expect(
      stdout
        .trim()
        .split(/\n(?=added|sold)/)
        .slice(1),
    ).toEqual([
      expect.stringMatching(`^added { id: '\\d+', name: 'Rex', categoryId: '${LARGE}' }$`),
      deep("'", ''),
      expect.stringMatching(`^added { id: \\d+n, name: 'Rex', categoryId: ${LARGE}n }$`),
      deep('', 'n'),
    ]);
    const stored = await gateway.sql(`SELECT category_id::text AS category FROM pets WHERE name = 'Rex'`);
    expect(stored).toEqual([{ category: LARGE }, { category: LARGE }]);
  });
});
