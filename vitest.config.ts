import { readdirSync, readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';

// Node takes the CommonJS entry of graphql and Vite would take the other one. Two copies refuse each other's schemas.
const resolve = { alias: [{ find: /^graphql$/, replacement: 'graphql/index.js' }] };

const ALL = '{test,packages/*/test}/**/*.test.ts';
const LONG = '{test,packages/*/test}/**/*.long.test.ts';
/** The suites that run once for each store. Embedded stores take most of their time, so the short run has none of them. */
const OF_EACH_STORE = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter((name) => /(?<!\.long)\.test\.ts$/.test(name))
  .map((name) => `test/${name}`)
  .filter((name) => /\b(STORES|MODES)\b/.test(readFileSync(name, 'utf8')));
/** Drills that take too long for the long run. */
const DRILLS = 'test/drills/*.drill.test.ts';
/** The long run repeats these more often, and those of the client as after the removal of the lookup. See `env` below. */
const REPEATED = [
  'test/graphql/drawn-prices.test.ts',
  'test/graphql/int64.test.ts',
  'test/rest/int64.test.ts',
  'test/hostile/fuzz.test.ts',
  'test/pets/batching-pet-source.test.ts',
  'packages/client/test/*.test.ts',
];

export default defineConfig({
  resolve,
  test: {
    globalSetup: ['test/support/servers.ts'],
    // Twice the cores of the smallest machine: most files wait for servers, windows and timeouts half of their time.
    maxWorkers: 4,
    // V8 would take longer to optimize PGlite's WebAssembly than most tests take to use it.
    execArgv: ['--liftoff-only'],
    expect: { poll: { timeout: 20_000 } },
    projects: [
      {
        extends: true,
        test: {
          name: 'short',
          include: [ALL],
          exclude: [LONG, DRILLS],
          env: { STORE: 'server' },
          // The files of a worker share the modules of the program. Loading them takes longer than most files.
          isolate: false,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'embedded',
          include: OF_EACH_STORE,
          env: { STORE: 'embedded' },
          isolate: false,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'long',
          // Browsers, installations and many processes use the cores themselves.
          maxWorkers: 2,
          // Projects with different numbers of workers run one after the other.
          sequence: { groupOrder: 1 },
          include: [LONG, ...REPEATED],
          env: {
            INT64_IDS: '10000',
            HOSTILE_INPUTS: '5000',
            READS_AFTER_ADDS: '10000',
            PRICED_OPERATIONS: '10000',
            GET_FROM_LISTS: 'true',
          },
          isolate: false,
          testTimeout: 900_000,
          hookTimeout: 900_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'drill',
          include: ['test/drills/*.test.ts'],
          env: { DRILL: 'true' },
          testTimeout: 600_000,
          hookTimeout: 300_000,
        },
      },
    ],
  },
});
