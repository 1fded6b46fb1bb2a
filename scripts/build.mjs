// Compiles the program into dist/, with the offline explorer beside it. Several at once wait for each other, so that
// none loads what another is writing. With --if-missing it does nothing when there is a build that is newer than its sources.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { buildExplorer } from './build-explorer.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
process.chdir(root);

const MAIN = 'dist/main.js';
const EXPLORER = 'dist/explorer-page/index.html';
const LOCK = 'dist/.building';

function isFresh() {
  if (!existsSync(MAIN) || !existsSync(EXPLORER)) return false;
  return isOlder('src', 'dist/.tsbuildinfo') && isOlder('explorer', EXPLORER);
}

/** Whether nothing in a folder has changed since something was made of it. */
function isOlder(folder, made) {
  const madeAt = statSync(made, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .every((entry) => statSync(`${entry.parentPath}/${entry.name}`).mtimeMs <= madeAt);
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
  const { status } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { stdio: ['ignore', 2, 2] });
  if (status !== 0) {
    process.exitCode = status ?? 1;
    return;
  }
  await buildExplorer();
}

const onlyIfMissing = process.argv.includes('--if-missing');
if (!(onlyIfMissing && isFresh())) await withLock(async () => (onlyIfMissing && isFresh() ? undefined : build()));
