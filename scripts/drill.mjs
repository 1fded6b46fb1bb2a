// Runs a drill: npm run drill -- NAME. Without a name, it lists the drills. docs/drills.md describes them.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const directory = join(import.meta.dirname, '../test/drills');
const SUFFIX = /\.(?:long|drill)\.test\.ts$/;
const files = readdirSync(directory).filter((file) => SUFFIX.test(file));
const drills = new Map(files.map((file) => [file.replace(SUFFIX, ''), join(directory, file)]));

const [name] = process.argv.slice(2);
const drill = drills.get(name);
if (drill !== undefined) {
  // With CI=true, a drill whose programs are missing fails instead of being skipped.
  const env = { ...process.env, CI: 'true' };
  const { status } = spawnSync('npx', ['vitest', 'run', '--project', 'drill', drill], { stdio: 'inherit', env });
  process.exitCode = status ?? 1;
} else {
  const isKnown = name === undefined || name === '--help';
  if (!isKnown) console.error(`drill: there is no drill named ${name}.`);
  // The first line of each file says what the drill does.
  for (const [known, file] of drills)
    console.log(`${known.padEnd(18)}${readFileSync(file, 'utf8').split('\n')[0].slice(3)}`);
  process.exitCode = isKnown ? 0 : 1;
}
