// Builds the program: `npm run build`. With --if-changed, only if a source is newer than the build.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync, statSync, utimesSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(import.meta.dirname);
const SOURCES = ['src', 'pages', 'docs', 'schema', 'README.md', 'packages/client/src'];
const SETTINGS = ['package.json', 'tsconfig.json', 'tsconfig.build.json', 'vite.config.ts'];
const DIST = join(ROOT, 'dist');
/** What the build writes last. Its time is that of the build. */
const LAST = join(DIST, 'public/index.html');
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');
const STORE_FILES = join(ROOT, 'scripts/create-store-files.mjs');
const VITE = join(ROOT, 'node_modules/vite/bin/vite.js');

/** Builds if a source is newer than the build. */
export function buildIfChanged() {
  const builtAt = statSync(LAST, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if ([...SOURCES, ...SETTINGS].some((name) => isNewer(join(ROOT, name), builtAt))) build();
}

/** A folder is newer if it or anything in it is, also after a deletion. */
function isNewer(path, builtAt) {
  const stats = statSync(path);
  if (stats.mtimeMs > builtAt) return true;
  return stats.isDirectory() && readdirSync(path).some((name) => isNewer(join(path, name), builtAt));
}

/**
 * Compiles src/ into dist/, makes the files of an empty embedded store, bundles pages/ into dist/public/, and removes
 * from dist/ what was made of sources that are gone. The output goes to standard error.
 */
function build() {
  if (![TSC, VITE].every((file) => existsSync(file))) {
    const state = existsSync(LAST) ? 'older than its sources' : 'missing';
    fail(`dist/ is ${state}, and the packages that build it are not installed: run npm ci --include=dev`);
  }
  const startedAt = new Date();
  // Any other NODE_ENV would put React's checks for developers into the pages.
  const options = { cwd: ROOT, env: { ...process.env, NODE_ENV: 'production' }, stdio: ['ignore', 2, 2] };
  try {
    execFileSync(process.execPath, [TSC, '-p', 'tsconfig.build.json'], options);
    execFileSync(process.execPath, [STORE_FILES], options);
    execFileSync(process.execPath, [VITE, 'build', '--logLevel', 'error'], options);
  } catch {
    // The compiler has said why.
    fail('dist/ could not be built');
  }
  for (const name of readdirSync(DIST, { recursive: true })) {
    const isOfServer = name.endsWith('.js') && !name.startsWith('public');
    if (isOfServer && !existsSync(join(ROOT, 'src', name.replace(/js$/, 'ts')))) rmSync(join(DIST, name));
  }
  utimesSync(LAST, startedAt, startedAt);
}

function fail(reason) {
  console.error(`build: ${reason}`);
  process.exit(1);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv[2] === '--if-changed') buildIfChanged();
  else build();
}
