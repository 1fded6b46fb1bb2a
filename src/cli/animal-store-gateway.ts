#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { readPackage } from '../observability/package.js';

const USAGE = `Usage: animal-store-gateway             serves; the environment has the settings
       animal-store-gateway keys …      manages API keys and reports usage
       animal-store-gateway migrate …   applies or reports pending migrations
       animal-store-gateway store …     exports or imports the whole store
       animal-store-gateway --help      prints this and all settings
       animal-store-gateway --version`;

const COMMANDS = new Map<string, () => Promise<unknown>>([
  ['keys', () => import('./keys.js')],
  ['migrate', () => import('./migrate.js')],
  ['store', () => import('./store.js')],
]);

const [first] = process.argv.slice(2);
const runCommand = COMMANDS.get(first ?? '');
if (first === undefined) {
  await import('../main.js');
} else if (runCommand) {
  process.argv.splice(2, 1);
  await runCommand();
} else if (first === '--version') {
  console.log(readPackage().version);
} else if (['--help', '-h'].includes(first)) {
  console.log(`${USAGE}\n\nSettings (environment variables), with their defaults:\n${listSettings()}`);
} else {
  console.error(`animal-store-gateway: unknown argument ${JSON.stringify(first)}; see --help`);
  process.exitCode = 1;
}

/** Reads the settings from the table in the documentation, which is part of the package. */
function listSettings(): string {
  const text = readFileSync(new URL('../../docs/settings.md', import.meta.url), 'utf8');
  const plain = text.replaceAll('`', '').replace(/\[([^[\]]*)\]\([^)]*\)/g, '$1');
  const rows = plain.split('\n').filter((line) => /^\| [A-Z]/.test(line));
  return rows
    .map((row) => row.split('|').map((cell) => cell.trim()))
    .map(([, name, value, meaning]) => `  ${name} (${value})\n      ${meaning}`)
    .join('\n');
}
