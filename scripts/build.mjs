// Compiles the program into dist/, and beside it the bundle that `npm start` runs, the offline explorer and the schema in one
// file. Several at once wait for each other, so that none loads what another is writing. With --if-missing it does nothing
// when there is a build that is newer than its sources.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { buildBundle } from './build-bundle.mjs';
import { buildExplorer } from './build-explorer.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
process.chdir(root);

const BUNDLE_FOLDER = 'bundle/';
const BUNDLE = `dist/${BUNDLE_FOLDER}main.js`;
const EXPLORER_FOLDER = 'explorer-page/';
const EXPLORER = `dist/${EXPLORER_FOLDER}index.html`;
const SCHEMA = 'dist/schema.graphql';
const LOCK = 'dist/.building';

function isFresh() {
  if (![BUNDLE, EXPLORER, SCHEMA].every((file) => existsSync(file))) return false;
  return [
    ['src', BUNDLE],
    ['package-lock.json', BUNDLE],
    ['explorer', EXPLORER],
    ['schema', SCHEMA],
  ].every(([source, made]) => isOlder(source, made));
}

/** Whether a file, or everything in a folder, is older than what was made of it. */
function isOlder(source, made) {
  const madeAt = statSync(made).mtimeMs;
  const files = statSync(source).isFile()
    ? [source]
    : readdirSync(source, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => `${entry.parentPath}/${entry.name}`);
  return files.every((file) => statSync(file).mtimeMs <= madeAt);
}

/** Whether the build that has the lock is still at it. What is older than a build can take was left by one that was killed. */
function isBuilding() {
  try {
    const age = Date.now() - statSync(LOCK).mtimeMs;
    const pid = Number(readFileSync(LOCK, 'utf8'));
    return age < 120_000 && process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function withLock(work) {
  mkdirSync('dist', { recursive: true });
  for (;;) {
    try {
      writeFileSync(LOCK, String(process.pid), { flag: 'wx' });
      break;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
      if (isBuilding()) await sleep(100);
      else rmSync(LOCK, { recursive: true, force: true });
    }
  }
  try {
    await work();
  } finally {
    rmSync(LOCK, { force: true });
  }
}

async function build() {
  const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  // The container image is built without the client package.
  for (const project of ['tsconfig.build.json', 'packages/client'].filter((path) => existsSync(path))) {
    const { status } = spawnSync(process.execPath, [tsc, '-p', project], { stdio: ['ignore', 2, 2] });
    if (status === 0) continue;
    process.exitCode = status ?? 1;
    return;
  }
  removeOrphans();
  buildBundle();
  await buildExplorer();
  replaceFile(SCHEMA, readSchema());
}

/** What earlier builds left of sources that are gone would go into the package. */
function removeOrphans() {
  for (const name of readdirSync('dist', { recursive: true })) {
    const [, stem] = /^(.+?)\.(?:js|js\.map|d\.ts)$/.exec(name) ?? [];
    if (stem !== undefined && !isBundled(stem) && !existsSync(`src/${stem}.ts`)) rmSync(`dist/${name}`);
  }
}

const isBundled = (name) => name.startsWith(EXPLORER_FOLDER) || name.startsWith(BUNDLE_FOLDER);

/** The type definitions as one text, for whoever generates types or checks operations. */
function readSchema() {
  const files = readdirSync('schema').filter((name) => name.endsWith('.graphql'));
  return files
    .sort()
    .map((name) => readFileSync(`schema/${name}`, 'utf8'))
    .join('\n');
}

/** A server that runs meanwhile must not read half a file. */
function replaceFile(path, text) {
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}

const onlyIfMissing = process.argv.includes('--if-missing');
if (!(onlyIfMissing && isFresh())) await withLock(async () => (onlyIfMissing && isFresh() ? undefined : build()));
