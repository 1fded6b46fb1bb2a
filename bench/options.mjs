import { parseArgs } from 'node:util';
import { FORMS, WORKS } from './requests.mjs';
import { PEERS } from './servers.mjs';

const MODES = ['store', 'proxy'];
const list = (entries) => entries.map(([name, title]) => `    ${name.padEnd(16)} ${title}`).join('\n');
const titles = (items) => list(Object.entries(items).map(([name, { title }]) => [name, title]));

export const HELP = `npm run bench -- [options]

Measures this program and its peers in one run and prints one Markdown table. Needs Linux, taskset, wrk and a PostgreSQL
server at BENCH_DATABASE_URL (default postgres://postgres@127.0.0.1:5432/postgres), where it creates its own databases
and drops them.

  --only W1,W3/urql     works, each alone or with one form (default: ${defaultWorks().join(', ')})
  --servers LIST        peers: ${Object.keys(PEERS).join(', ')} (default: all, or none with --against; "none" for none)
  --mode store|proxy    one mode (default: both)
  --rounds N            how often each server is started and measured (default 5)
  --seconds N           length of each measurement (default 4)
  --warmup N            seconds of warm-up after each start (default 3)
  --against DIR         also measures another build of this program, in a folder with its package.json and dist/
  --against-env K=V,…   ... or this build, with these environment variables (both may be given)
  --out FILE            also writes the table to a file
  --help

Works:
${titles(WORKS)}
Forms:
${titles(FORMS)}`;

function defaultWorks() {
  return Object.keys(WORKS).filter((work) => !WORKS[work].isOptional);
}

/** @throws Error in one line that says what is wrong */
export function readOptions(argv) {
  const { values } = parseArgs({
    args: argv,
    options: {
      only: { type: 'string', default: defaultWorks().join() },
      servers: { type: 'string' },
      mode: { type: 'string', default: MODES.join() },
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '4' },
      warmup: { type: 'string', default: '3' },
      against: { type: 'string' },
      'against-env': { type: 'string' },
      out: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  const { against, 'against-env': againstEnv } = values;
  const hasOther = against !== undefined || againstEnv !== undefined;
  const peers = values.servers ?? (hasOther ? 'none' : Object.keys(PEERS).join());
  return {
    help: values.help,
    modes: split(values.mode, MODES, '--mode'),
    rows: split(values.only).flatMap(toRows),
    servers: [
      'ours',
      ...(hasOther ? ['against'] : []),
      ...(peers === 'none' ? [] : split(peers, Object.keys(PEERS), '--servers')),
    ],
    rounds: toNumber('--rounds', values.rounds),
    seconds: toNumber('--seconds', values.seconds),
    warmup: toNumber('--warmup', values.warmup),
    against: hasOther ? { root: against, env: Object.fromEntries(split(againstEnv ?? '').map(toPair)) } : undefined,
    out: values.out,
  };
}

/** The rows of the table for a word such as W1 or W1/apollo. */
function toRows(word) {
  const [work, form] = word.split('/');
  split(work, Object.keys(WORKS), '--only');
  const rows = WORKS[work].rows.map(([name, connections]) => ({ work, form: name, connections }));
  if (form === undefined) return rows;
  split(form, Object.keys(FORMS), '--only');
  const chosen = rows.filter((row) => row.form === form);
  return chosen.length > 0 ? chosen : [{ work, form, connections: 32 }];
}

function split(text, known, option) {
  const words = text.split(',').filter((word) => word !== '');
  const unknown = known && words.find((word) => !known.includes(word));
  if (unknown !== undefined) throw new Error(`${option} ${unknown}: expected ${known.join(', ')}`);
  return words;
}

function toPair(text) {
  const at = text.indexOf('=');
  if (at === -1) throw new Error(`--against-env ${text}: expected NAME=VALUE`);
  return [text.slice(0, at), text.slice(at + 1)];
}

function toNumber(option, text) {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0) return value;
  throw new Error(`${option} ${text}: expected a whole number above 0`);
}
