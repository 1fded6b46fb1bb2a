// Lists the import cycles of src/, and fails if there are any: npm run lint. Types count: who reads one of the files
// needs the others.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import ts from 'typescript';

const SRC = join(dirname(import.meta.dirname), 'src');
const names = readdirSync(SRC, { recursive: true }).filter((name) => name.endsWith('.ts'));
const imports = new Map(names.map((name) => [name, importsOf(name)]));

function importsOf(name) {
  const { importedFiles } = ts.preProcessFile(readFileSync(join(SRC, name), 'utf8'));
  const targets = importedFiles.map(({ fileName }) => fileName).filter((target) => target.startsWith('.'));
  return targets.map((target) => normalize(join(dirname(name), target)).replace(/js$/, 'ts'));
}

/** The files that a file imports, directly or not. */
function reachableFrom(name, found = new Set()) {
  for (const next of imports.get(name) ?? []) if (!found.has(next)) reachableFrom(next, found.add(next));
  return found;
}

const reachable = new Map(names.map((name) => [name, reachableFrom(name)]));
/** Each cycle, or group of cycles that share files, by its first file. */
const groups = new Map();
for (const name of names.sort()) {
  const group = names.filter((other) => reachable.get(name).has(other) && reachable.get(other).has(name));
  if (group.length > 0) groups.set(group[0], group);
}
for (const group of groups.values()) console.error(`cycle: ${group.join(' ')}`);
if (groups.size > 0) process.exitCode = 1;
