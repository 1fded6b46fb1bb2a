// Measures what is left for one key while another caller does its worst: its throughput and 99th percentile alone and
// beside that caller, in turn. Each cell is the median of the rounds, with the lowest and the highest:
// node bench/fairness.mjs [--program DIR] [--modes server,embedded,proxy] [--rounds 3] [--seconds 3] [--only TEXT]
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { CALLERS, MODES, requireStatuses } from './attackers.mjs';
import { holdRequests, runWrk, send, writeRequests } from './load/load.mjs';
import { killAll, planCores } from './machine.mjs';
import { formatRange } from './report.mjs';
import { toRequests } from './requests.mjs';
import { startProgram } from './servers.mjs';

const CONNECTIONS = 32;

async function main() {
  const text = (value) => ({ type: 'string', default: value });
  const here = fileURLToPath(new URL('..', import.meta.url));
  const { values } = parseArgs({
    options: {
      program: text(here),
      modes: text(Object.keys(MODES).join()),
      rounds: text('3'),
      seconds: text('3'),
      only: text(''),
    },
  });
  const root = resolve(values.program);
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-bench-'));
  const cores = planCores();
  try {
    console.log(
      '| mode | caller | alone/s | beside it/s | share | p99 alone, ms | p99 beside it, ms | failed | its responses |',
    );
    console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- |');
    for (const mode of values.modes.split(',')) await measureMode(mode);
  } finally {
    killAll();
    rmSync(directory, { recursive: true, force: true });
  }

  async function measureMode(mode) {
    const backend = await MODES[mode](root, { cores, directory });
    const place = { core: cores.server, directory };
    const isWanted = ({ name }) => name.includes(values.only);
    for (const caller of CALLERS.filter(isWanted)) {
      const { name, connections, pipelined, metricsPort } = caller;
      const env = { ...backend.env, ...(metricsPort && { METRICS_PORT: String(metricsPort) }) };
      const server = await startProgram(root, env, place);
      const port = metricsPort ?? server.port;
      const keys = await backend.getKeys();
      const honest = toRequests('W1', 'apollo', keys.honest);
      const files = { honest: join(directory, 'honest'), other: join(directory, 'other') };
      writeRequests(files.honest, honest);
      writeRequests(files.other, caller.toRequests(keys), pipelined);
      await send(server.port, honest[0]);
      const load = (seconds) => runWrk(server.port, files.honest, CONNECTIONS, seconds, cores.load);
      await load(3);
      const rounds = [];
      for (let round = 0; round < Number(values.rounds); round += 1) {
        const alone = await load(values.seconds);
        const attackSeconds = Number(values.seconds) + 2;
        const attack = caller.isUnfinished
          ? holdRequests(port, files.other, connections, attackSeconds)
          : runWrk(port, files.other, connections, attackSeconds, cores.load, { isUnchecked: true });
        await sleep(1_000);
        const beside = await load(values.seconds);
        const other = await attack;
        server.assertAlive();
        requireStatuses(caller, other.statuses);
        rounds.push({ alone, beside, other });
      }
      await server.stop();
      console.log(`| ${[mode, name, ...toCells(rounds)].join(' | ')} |`);
    }
    await backend.close();
  }
}

function toCells(rounds) {
  const rate = ({ requests, failed, duration }) => (requests - failed) / (duration / 1e6);
  const over = (read, digits = 0) => formatRange(rounds.map(read), (value) => value.toFixed(digits));
  return [
    over(({ alone }) => rate(alone)),
    over(({ beside }) => rate(beside)),
    over(({ alone, beside }) => rate(beside) / rate(alone), 2),
    over(({ alone }) => alone.p99 / 1_000),
    over(({ beside }) => beside.p99 / 1_000),
    rounds.reduce((sum, { beside }) => sum + beside.failed, 0),
    Object.entries(rounds[0].other.statuses)
      .map(([status, count]) => `${status}: ${(count / (rounds[0].other.duration / 1e6)).toFixed(0)}/s`)
      .join(),
  ];
}

main().catch((error) => {
  console.error(`fairness: ${error.stack}`);
  process.exitCode = 1;
});
