// Before packing: writes npm-shrinkwrap.json, so that who installs the package gets the versions that were tested. `overrides`
// do not count there, and without them npm would choose packages that need a newer Node, or another `graphql`.
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';

const folder = resolve(import.meta.dirname, '..');
const lock = JSON.parse(readFileSync(`${folder}/package-lock.json`, 'utf8'));
const { '': own, ...others } = lock.packages;
const { devDependencies: _left, ...root } = own;
const installed = Object.entries(others).filter(([, { dev, devOptional }]) => !dev && !devOptional);
const packages = { '': root, ...Object.fromEntries(installed) };
writeFileSync(`${folder}/npm-shrinkwrap.json`, `${JSON.stringify({ ...lock, packages }, null, 2)}\n`);
