// Runs a drill: npm run drill -- NAME. Without a name, it lists the drills. docs/drills.md describes them.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const directory = join(import.meta.dirname, '../test/drills');
const SUFFIX = /\.(?:long|drill)\.test\.ts$/;
const files = readdirSync(directory).filter((file) => SUFFIX.test(file));
const drills = new Map(
  files.map((file) => {
    // The first line of each file says what the drill does.
    const [does] = readFileSync(join(directory, file), 'utf8').split('\n');
    return [file.replace(SUFFIX, ''), { does: does.slice(3), tests: [join(directory, file)], projects: ['drill'] }];
  }),
);

/** Adds a drill that consists of ordinary tests. */
function add(name, does, ...tests) {
  drills.set(name, { does, tests: tests.map((test) => `test/${test}.`), projects: ['short', 'long'] });
}
add('migrations', 'Migrations are killed, wait for a lock, and fail halfway.', 'store/migrate');
add('start', 'The database, the upstream or Redis is unavailable at the start.', 'process/health', 'process/redis');
add(
  'embedded-store',
  'An embedded store is new, locked, damaged, or of another PostgreSQL.',
  'process/first-start',
  'process/store-lock',
);
add('signals', 'Each signal arrives, alone and twice, with and without requests.', 'process/shutdown');
add('keys', 'Keys are created, changed, rotated, revoked and expire.', 'process/keys-command', 'process/key-life');
add('usage', 'Usage is counted, written in batches, and pruned.', 'store/usage-counter', 'store/usage');
add('moving', 'A store moves from embedded to a server and back.', 'process/store-command');

const [name] = process.argv.slice(2);
const drill = drills.get(name);
if (drill !== undefined) {
  // With CI=true, a drill whose programs are missing fails instead of being skipped.
  const env = { ...process.env, CI: 'true' };
  const projects = drill.projects.flatMap((project) => ['--project', project]);
  const { status } = spawnSync('npx', ['vitest', 'run', ...projects, ...drill.tests], { stdio: 'inherit', env });
  process.exitCode = status ?? 1;
} else {
  const isKnown = name === undefined || name === '--help';
  if (!isKnown) console.error(`drill: there is no drill named ${name}.`);
  for (const [known, { does }] of drills) console.log(`${known.padEnd(18)}${does}`);
  process.exitCode = isKnown ? 0 : 1;
}
