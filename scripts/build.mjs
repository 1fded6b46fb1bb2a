// Compiles the program into dist/, with the offline explorer beside it. Several at once wait for each other, so that
// none loads what another is writing. With --if-missing it does nothing when there is a build that is newer than src/.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
process.chdir(root);

const MAIN = 'dist/main.js';
const EXPLORER = 'dist/explorer.html';
const LOCK = 'dist/.building';

function isFresh() {
  if (!existsSync(MAIN) || !existsSync(EXPLORER)) return false;
  const built = statSync('dist/.tsbuildinfo', { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return readdirSync('src', { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .every((entry) => statSync(`${entry.parentPath}/${entry.name}`).mtimeMs <= built);
}

async function withLock(work) {
  mkdirSync('dist', { recursive: true });
  for (let tries = 0; ; tries++) {
    try {
      mkdirSync(LOCK);
      break;
    } catch {
      const age = Date.now() - (statSync(LOCK, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
      // A build takes seconds; what is older was left by one that was killed.
      if (age > 120_000) rmSync(LOCK, { recursive: true, force: true });
      await sleep(100);
    }
  }
  try {
    await work();
  } finally {
    rmSync(LOCK, { recursive: true, force: true });
  }
}

async function build() {
  const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  const { status } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { stdio: ['ignore', 2, 2] });
  if (status !== 0) process.exitCode = status ?? 1;
  if (existsSync(EXPLORER)) return;
  const { renderGraphiQL } = await import('@graphql-yoga/render-graphiql');
  const page = renderGraphiQL({
    title: 'Animal store explorer',
    endpoint: '/graphql',
    headers: JSON.stringify({ Authorization: 'Bearer YOUR_API_KEY' }, null, 2),
    shouldPersistHeaders: false,
    defaultQuery: `# Put an API key into the Headers pane below, then run the query.
query ListPets {
  pets(limit: 5, status: AVAILABLE) {
    id
    name
    categoryId
    status
  }
}
`,
  });
  writeFileSync(EXPLORER, page);
}

const onlyIfMissing = process.argv.includes('--if-missing');
if (!(onlyIfMissing && isFresh())) await withLock(async () => (onlyIfMissing && isFresh() ? undefined : build()));
