// The benchmark: this program and its peers, measured in turns in one run. See README.md, or --help.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { requireWrk } from './load/load.mjs';
import { killAll, moveToCore, planCores } from './machine.mjs';
import { measureAll } from './measure.mjs';
import { HELP, readOptions } from './options.mjs';
import { toMarkdown } from './report.mjs';

async function main() {
  const options = readOptions(process.argv.slice(2));
  if (options.help) {
    console.log(HELP);
    return;
  }
  requireWrk();
  const cores = planCores();
  const root = resolve(fileURLToPath(new URL('..', import.meta.url)));
  const { status } = spawnSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error('npm run build failed');
  moveToCore(cores.load, [process.pid]);
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-bench-'));
  const stopping = new AbortController();
  stopping.signal.addEventListener('abort', killAll);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stopping.abort(new Error('interrupted')));
  try {
    const result = await measureAll({ root, options, cores, directory, signal: stopping.signal });
    console.log(toMarkdown(result, options));
    if (result.failures.length > 0) process.exitCode = 1;
  } finally {
    killAll();
    rmSync(directory, { recursive: true, force: true });
  }
}

main().catch((error) => {
  console.error(`bench: ${error.message}`);
  process.exitCode = 1;
});
