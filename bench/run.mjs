// The benchmark: this program beside its peers, ratios in one run. See README.md here, or --help.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const here = fileURLToPath(new URL('.', import.meta.url));

/** The peers are a package of their own, installed when somebody first measures, and when their versions have changed. */
function installPeers() {
  const changedAt = (file) => statSync(join(here, file), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (changedAt('node_modules/.package-lock.json') > changedAt('package-lock.json')) return;
  console.error('installing the peers into bench/node_modules (once)');
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: here,
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error('npm ci in bench/ failed');
}

async function main() {
  installPeers();
  // Only now can what imports packages be loaded.
  const [{ HELP, readOptions }, { killAll }, { measureAll }, { writeReport }] = await Promise.all([
    import('./options.mjs'),
    import('./machine/processes.mjs'),
    import('./measure-all.mjs'),
    import('./report/report.mjs'),
  ]);
  const options = readOptions(process.argv.slice(2));
  if (options.help) {
    console.log(HELP);
    return;
  }
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-bench-'));
  const stopping = new AbortController();
  const interrupt = () => stopping.abort(new Error('interrupted'));
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  stopping.signal.addEventListener('abort', killAll);
  process.once('exit', killAll);
  try {
    const result = await measureAll({ options, root, directory, signal: stopping.signal });
    const isFine = await writeReport(result, options, here);
    process.exitCode = isFine ? 0 : 1;
  } finally {
    killAll();
    rmSync(directory, { recursive: true, force: true });
  }
}

main().catch((error) => {
  console.error(`bench: ${error.message}`);
  process.exitCode = 1;
});
