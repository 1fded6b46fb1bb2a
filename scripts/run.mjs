// Runs the program, as `npm start` and `npm run keys` do. Builds it first if a source is newer than the build.
//
// The program runs in this process, so that npm's signals reach it directly. For the same reason, `npm start` and
// `npm run dev` begin with `exec`, because npm signals the shell. A shell without `exec`, as on Windows, goes on with what
// follows the `||`.
import { execSync } from 'node:child_process';
import { readdirSync, statSync, utimesSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const ROOT = new URL('../', import.meta.url);
const PROGRAM = new URL('dist/bundle/animal-store-gateway.js', ROOT);
const SOURCES = ['src', 'pages', 'docs', 'README.md', 'packages/client/src', 'package-lock.json', 'vite.config.ts'];

if (SOURCES.some((name) => isNewer(new URL(name, ROOT)))) {
  // The output of the build goes to the standard error, because that of `keys --json` is for other programs.
  execSync('npm run -s build', { cwd: fileURLToPath(ROOT), stdio: ['ignore', 2, 2] });
  utimesSync(PROGRAM, new Date(), new Date());
}
await import(PROGRAM.href);

/** Whether a file is newer than the build. A folder is newer if it or anything in it is, also after a deletion. */
function isNewer(url) {
  const stats = statSync(url);
  const builtAt = statSync(PROGRAM, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (stats.mtimeMs > builtAt) return true;
  return stats.isDirectory() && readdirSync(url).some((name) => isNewer(new URL(`${url.href}/${name}`)));
}
