// The benchmark: this program and its peers, measured in turns in one run. See README.md, or --help.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = resolve(fileURLToPath(new URL('..', import.meta.url)));
const bench = fileURLToPath(new URL('.', import.meta.url));

function npm(args, cwd) {
  const { status } = spawnSync('npm', args, { cwd, stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(`npm ${args.join(' ')} failed in ${cwd}`);
}

/** The peers are a package of their own. It is installed by the first run, and again when its lock file has changed. */
function installPeers() {
  const changedAt = (file) => statSync(join(bench, file), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (changedAt('node_modules/.package-lock.json') < changedAt('package-lock.json'))
    npm(['ci', '--no-audit', '--no-fund', '--loglevel=error'], bench);
}

async function main() {
  installPeers();
  // These import packages, so they can be loaded only now.
  const { HELP, readOptions } = await import('./options.mjs');
  const { killAll, moveToCore, planCores } = await import('./machine.mjs');
  const { requireWrk } = await import('./load/load.mjs');
  const { measureAll } = await import('./measure.mjs');
  const { toMarkdown } = await import('./report.mjs');
  const options = readOptions(process.argv.slice(2));
  if (options.help) {
    console.log(HELP);
    return;
  }
  requireWrk();
  const cores = planCores();
  npm(['run', '--silent', 'build'], root);
  moveToCore(cores.load, [process.pid]);
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-bench-'));
  const stopping = new AbortController();
  stopping.signal.addEventListener('abort', killAll);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stopping.abort(new Error('interrupted')));
  try {
    const result = await measureAll({ root, options, cores, directory, signal: stopping.signal });
    const text = toMarkdown(result, options);
    console.log(text);
    if (options.out !== undefined) writeFileSync(options.out, text);
    if (result.failures.length > 0) process.exitCode = 1;
  } finally {
    killAll();
    if (existsSync(directory)) rmSync(directory, { recursive: true });
  }
}

main().catch((error) => {
  console.error(`bench: ${error.message}`);
  process.exitCode = 1;
});
