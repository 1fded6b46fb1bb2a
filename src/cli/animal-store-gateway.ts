#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { readPackage } from '../observability/package.js';

const USAGE = `Usage: animal-store-gateway             serves; settings come from the environment
       animal-store-gateway keys …      manages API keys, and reports who requests what
       animal-store-gateway migrate …   applies pending migrations, or reports them
       animal-store-gateway store …     exports or imports animals, keys and usage as one file
       animal-store-gateway --version`;

const [first, ...rest] = process.argv.slice(2);
if (first === undefined) {
  await import('../main.js');
} else if (first === 'keys') {
  process.argv.splice(2, 1);
  await import('./keys.js');
} else if (first === 'migrate') {
  process.argv.splice(2, 1);
  await import('./migrate.js');
} else if (first === 'store') {
  process.argv.splice(2, 1);
  await import('./store.js');
} else if (first === '--version' && rest.length === 0) {
  console.log(readPackage().version);
} else if (first === '--help' && rest.length === 0) {
  console.log(`${USAGE}\n\nSettings (environment variables), with their defaults:\n${listSettings()}`);
} else {
  console.error(`animal-store-gateway: no such command: ${JSON.stringify(first)}\n${USAGE}`);
  process.exitCode = 1;
}

/** Reads the settings from the table in the documentation, which is part of the package. */
function listSettings(): string {
  const text = readFileSync(new URL('../../docs/settings.md', import.meta.url), 'utf8');
  const plain = text.replaceAll('`', '').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1');
  const rows = plain.split('\n').filter((line) => /^\| [A-Z]/.test(line));
  const widths = [30, 16, 0];
  return rows
    .map((row) => row.slice(1, -1).split('|'))
    .map((cells) => cells.map((cell, i) => cell.trim().padEnd(widths[i] ?? 0)).join('  '))
    .join('\n');
}
