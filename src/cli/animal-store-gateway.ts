#!/usr/bin/env node
import { fileURLToPath } from 'node:url';
import { VERSION } from '../observability/package.js';

const USAGE = `Usage: animal-store-gateway             serves; the environment has the settings
       animal-store-gateway keys …      manages API keys and reports usage
       animal-store-gateway migrate …   applies or reports pending migrations
       animal-store-gateway store …     exports or imports the whole store
       animal-store-gateway --help
       animal-store-gateway --version

The settings are environment variables. ${fileURLToPath(new URL('../../docs/settings.md', import.meta.url))} lists them.`;

const [first] = process.argv.slice(2);
if (first === undefined) {
  await import('../main.js');
} else if (['keys', 'migrate', 'store'].includes(first)) {
  process.argv.splice(2, 1);
  await import(`./${first}.js`);
} else if (first === '--version') {
  console.log(VERSION);
} else if (['--help', '-h'].includes(first)) {
  console.log(USAGE);
} else {
  console.error(`animal-store-gateway: unknown argument ${JSON.stringify(first)}; see --help`);
  process.exitCode = 1;
}
