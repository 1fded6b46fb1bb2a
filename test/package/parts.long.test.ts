import { execFile } from 'node:child_process';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { makeCheckout } from '../docs/checkout.js';

const run = promisify(execFile);

interface Part {
  readonly name: string;
  /** What its lines in `app.ts` become. */
  readonly edits: readonly (readonly [RegExp, string])[];
  /** Tests of what is left. */
  readonly tests: readonly string[];
}

/** Tests that use nothing of these parts. */
const STORE_TESTS = ['test/access', 'test/store/key-admin', 'test/graphql/batch-sql'];

const PARTS: readonly Part[] = [
  {
    name: 'proxy',
    edits: [[/const \{ openProxyBackend \}[^]*?return openProxyBackend\(.*?\);/, "throw new ConfigError('no proxy');"]],
    tests: [...STORE_TESTS, 'test/rest/list'],
  },
  {
    name: 'redis',
    edits: [[/const \{ openSharing: connect \}[^]*?return connect\(.*?\);/, "throw new ConfigError('no Redis');"]],
    tests: [...STORE_TESTS, 'test/rest/list'],
  },
  {
    name: 'rest',
    edits: [
      [/import \{ createRest \}.*\n/, ''],
      [/if \(ownKeys\) .*\n/, ''],
    ],
    tests: STORE_TESTS,
  },
  {
    name: 'mcp',
    edits: [
      [/import \{ createMcp \}.*\n/, ''],
      [/if \(hasMcp\) .*\n/, ''],
    ],
    tests: [...STORE_TESTS, 'test/rest/list'],
  },
  {
    name: 'pages',
    edits: [
      [/import \{ createPages \}.*\n/, ''],
      [/if \(explorer \|\| keyPage\) \{[^]*?\n {4}\}/, ''],
      [/explorer \? `.*` : undefined/, 'undefined'],
    ],
    tests: [...STORE_TESTS, 'test/rest/list'],
  },
];

describe('the program without', () => {
  it.each(PARTS)('$name, its lines in app.ts and its tests compiles and passes', async ({ name, edits, tests }) => {
    const checkout = await makeCheckout();
    const { directory } = checkout;
    try {
      await rm(join(directory, 'src', name), { recursive: true });
      const app = join(directory, 'src/app.ts');
      let text = await readFile(app, 'utf8');
      for (const [lines, replacement] of edits) {
        expect(text).toMatch(lines);
        text = text.replace(lines, replacement);
      }
      await writeFile(app, text);
      await removeTests(directory, new RegExp(`(src|\\.\\.)/${name}/`));
      const options = { cwd: directory, env: { ...process.env, CI: '' }, maxBuffer: 1e8 };
      // What only these lines have used is left in app.ts.
      await run('npx', ['tsc', '-p', '.', '--noUnusedLocals', 'false'], options);
      const { stdout } = await run('npx', ['vitest', 'run', '--project', 'short', ...tests], options);
      expect(stdout).toMatch(/Test Files.* passed/);
    } catch (error) {
      // What the failed command has printed says more than its status.
      throw new Error((error as { stdout?: string }).stdout ?? String(error));
    } finally {
      await checkout.remove();
    }
  });
});

/** Removes the tests that import what the pattern names, and those that import their helpers. */
async function removeTests(directory: string, pattern: RegExp): Promise<void> {
  const files = await readdir(join(directory, 'test'), { recursive: true });
  for (const file of files.filter((one) => one.endsWith('.ts'))) {
    const path = join(directory, 'test', file);
    const text = await readFile(path, 'utf8').catch(() => '');
    if (!new RegExp(`from '[^']*${pattern.source}`).test(text)) continue;
    await rm(path);
    const helper = /support\/.*(?=\.ts$)/.exec(file)?.[0];
    if (helper) await removeTests(directory, new RegExp(`${helper}\\.js`));
  }
}
