import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../../../test/support/gateway.js';

const SCRIPT = fileURLToPath(new URL('../../../examples/service/look-up.mjs', import.meta.url));

describe('examples/service', () => {
  let gateway: Gateway;
  let key: string;
  let directory: string;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'animal-store-service-'));
    gateway = await startGateway('embedded');
    ({ key } = await gateway.createKey());
    await gateway.sql(
      `INSERT INTO pets (name, category_id) SELECT 'Animal ' || n, 1 FROM generate_series(1, 250) AS n`,
    );
  });
  afterAll(async () => {
    await gateway.close();
    await rm(directory, { recursive: true, force: true });
  });

  interface Ended {
    readonly status: number | string;
    readonly lines: readonly any[];
    readonly stderr: string;
  }

  function lookUp(args: readonly string[], env: Record<string, string> = { STORE_KEY: key }): Promise<Ended> {
    return new Promise((resolve) => {
      const options = { env: { PATH: process.env.PATH, STORE_URL: `${gateway.url}/graphql`, ...env } };
      execFile(process.execPath, [SCRIPT, ...args], options, (error, stdout, stderr) => {
        const lines = stdout.split('\n').filter((line) => line !== '');
        resolve({ status: error?.code ?? 0, lines: lines.map((line): unknown => JSON.parse(line)), stderr });
      });
    });
  }

  it('prints the animals whose ids are in a file', async () => {
    const file = join(directory, 'ids.txt');
    await writeFile(file, Array.from({ length: 250 }, (_, index) => 250 - index).join('\n'));
    const { status, lines, stderr } = await lookUp(['--file', file]);
    expect([status, stderr]).toEqual([0, '']);
    expect(lines.map(({ pet }): unknown => pet.name)).toEqual(
      Array.from({ length: 250 }, (_, index) => `Animal ${250 - index}`),
    );
  });

  it('explains which lookups failed, and why', async () => {
    const { status, lines } = await lookUp(['7', '404', 'x']);
    expect(status).toBe(1);
    expect(lines).toMatchObject([
      { pet: { id: '7' } },
      { id: '404', error: 'NOT_FOUND' },
      { id: 'x', error: 'BAD_USER_INPUT' },
    ]);
  });

  it('explains its usage', async () => {
    expect(await lookUp([])).toMatchObject({
      status: 2,
      lines: [],
      stderr: expect.stringContaining('usage:') as string,
    });
    expect(await lookUp(['1'], {})).toMatchObject({ status: 2 });
  });
});
