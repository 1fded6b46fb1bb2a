#!/usr/bin/env node
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
  console.log(USAGE);
} else {
  console.error(`animal-store-gateway: no such command: ${JSON.stringify(first)}\n${USAGE}`);
  process.exitCode = 1;
}
