import { parseArgs } from 'node:util';
import { oneOf, toList, toNumber } from './arguments.mjs';
import { WORKS } from './data/operations.mjs';
import { comparedFor } from './report/goals.mjs';
import { DEFAULT_SERVERS, SERVERS } from './servers/registry.mjs';

const MODES = ['store', 'proxy'];

export const HELP = `npm run bench -- [options]

  --only W1,W3            works: ${Object.entries(WORKS)
    .map(([name, { title }]) => `${name} (${title})`)
    .join(', ')}
  --servers ours,bare     servers: ${Object.keys(SERVERS).join(', ')}
  --mode store|proxy      one mode (default: both)
  --connections 1,32,256  connections (default: all three)
  --rounds N              how often each server is started and measured, in turns (default: 5)
  --seconds N             length of one measurement (default: 3)
  --warmup N              seconds at 32 connections after each start (default: 5)
  --goals                 only what the table of goals is made of: for each work its peers and numbers of connections
  --quick                 3 rounds of 2 seconds, 3 of warm-up, 32 connections, unless said otherwise
  --against DIRECTORY     compare with another build of this program, such as a worktree with its own dist/
  --against-env K=V,K=V   ... or with this one under other settings
  --against-flags "..."   ... or under other flags of node
  --ours DIRECTORY        where this program's build is (default: the directory above bench/, built when stale)
  --flags "..."           flags of node for every server (default: those of npm start)
  --pool N                connections to PostgreSQL of each server (default: 10)
  --out FILE              write the Markdown there (default: bench/results.md when nothing was narrowed)

BENCH_DATABASE_URL names the PostgreSQL server (default: postgres://postgres@127.0.0.1:5432/postgres); the run makes
databases of its own there and drops them.`;

/** @throws Error in one line for what cannot be */
export function readOptions(argv) {
  const { values } = parseArgs({
    args: argv,
    options: {
      only: { type: 'string' },
      servers: { type: 'string' },
      mode: { type: 'string' },
      connections: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      warmup: { type: 'string' },
      goals: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      against: { type: 'string' },
      'against-env': { type: 'string' },
      'against-flags': { type: 'string' },
      ours: { type: 'string' },
      flags: { type: 'string' },
      pool: { type: 'string', default: '10' },
      out: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  const { goals, quick } = values;
  const against =
    values.against !== undefined || values['against-env'] !== undefined || values['against-flags'] !== undefined
      ? {
          root: values.against,
          env: Object.fromEntries(toList(values['against-env'] ?? '').map((pair) => splitOnce(pair, '='))),
          flags: values['against-flags'],
        }
      : undefined;
  if (goals && (against ?? values.servers ?? values.connections) !== undefined)
    throw new Error('--goals says which servers and connections: leave out --servers, --connections and --against');
  const servers = values.servers === undefined ? undefined : oneOf('--servers', values.servers, Object.keys(SERVERS));
  const connections = toList(values.connections ?? (quick ? '32' : '1,32,256')).map((text) =>
    toNumber('--connections', text, 1, 10_000),
  );
  return {
    help: values.help,
    works: oneOf('--only', values.only ?? Object.keys(WORKS).join(), Object.keys(WORKS)),
    modes: oneOf('--mode', values.mode ?? MODES.join(), MODES),
    /** The servers to compare, and the numbers of connections. */
    comparedFor: (mode, work) =>
      goals ? comparedFor(mode, work) : { names: chosen(servers, against, mode), connections },
    rounds: toNumber('--rounds', values.rounds ?? (quick ? '3' : '5'), 1, 1_000),
    seconds: toNumber('--seconds', values.seconds ?? (quick ? '2' : '3'), 0.1, 600),
    warmup: toNumber('--warmup', values.warmup ?? (quick ? '3' : '5'), 0.1, 600),
    pool: toNumber('--pool', values.pool, 1, 1_000),
    ours: values.ours,
    flags: values.flags,
    against,
    out: values.out,
    isWhole: !quick && argv.every((argument) => /^--(rounds|seconds|warmup|out)|^[^-]/.test(argument)),
  };
}

function chosen(servers, against, mode) {
  const names = servers ?? (against ? ['ours'] : DEFAULT_SERVERS[mode]);
  const all = against ? [...new Set([...names, 'against'])] : names;
  return all.filter((name) => SERVERS[name].modes.includes(mode));
}

function splitOnce(text, separator) {
  const at = text.indexOf(separator);
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}
