import { parseArgs } from 'node:util';
import { FORMS, WORKS } from './requests.mjs';
import { PEERS } from './servers.mjs';

const MODES = ['store', 'proxy'];
const DEFAULT_WORKS = Object.keys(WORKS).filter((work) => !WORKS[work].isOptional);
const titles = Object.entries(WORKS).map(([name, { title }]) => `  ${name.padEnd(20)}  ${title}`);

export const HELP = `npm run bench -- [options]

Measures this program and its peers in one run of about 40 minutes, and prints one Markdown table. See bench/README.md.

  --only W1,W3/urql     works, each whole or in one form (default: ${DEFAULT_WORKS.join()})
  --servers LIST        peers: ${Object.keys(PEERS).join()} (default: all, or none with --against), or "none"
  --mode store|proxy    one mode (default: both)
  --rounds N            how often each server is started and measured (default: 5)
  --seconds N           length of each measurement (default: 4)
  --warmup N            seconds of CPU time for which each row warms up a server after its start (default: 2)
  --against DIR         also measures another build of this program, in a folder with its package.json and dist/
  --against-env K=V,…   also measures this program, or the one of --against, with these environment variables

Works:
${titles.join('\n')}
Forms: ${FORMS.join(', ')}`;

/** @throws Error in one line that says what is wrong */
export function readOptions(args) {
  const text = (value) => ({ type: 'string', default: value });
  const { values } = parseArgs({
    args,
    options: {
      only: text(DEFAULT_WORKS.join()),
      servers: text(),
      mode: text(MODES.join()),
      rounds: text('5'),
      seconds: text('4'),
      warmup: text('2'),
      against: text(),
      'against-env': text(),
      help: { type: 'boolean', default: false },
    },
  });
  const { against, 'against-env': env = '', help } = values;
  const hasOther = against !== undefined || env !== '';
  const peers = values.servers ?? (hasOther ? 'none' : Object.keys(PEERS).join());
  return {
    help,
    modes: split(values.mode, MODES, '--mode'),
    rows: split(values.only).flatMap(toRows),
    servers: [
      'ours',
      ...(hasOther ? ['against'] : []),
      ...split(peers.replace('none', ''), Object.keys(PEERS), '--servers'),
    ],
    rounds: toNumber(values.rounds, '--rounds'),
    seconds: toNumber(values.seconds, '--seconds'),
    warmup: toNumber(values.warmup, '--warmup'),
    against: { root: against, env: Object.fromEntries(split(env).map((pair) => pair.split(/=(.*)/s, 2))) },
  };
}

/** The rows of the table for a word such as W1 or W1/apollo. */
function toRows(word) {
  const [work, ...forms] = word.split('/');
  split(work, Object.keys(WORKS), '--only');
  split(forms.join(), FORMS, '--only');
  const rows = WORKS[work].rows.map((row) => {
    const [form, connections = '32'] = row.split(' ×');
    return { work, form, connections: Number(connections) };
  });
  if (forms.length === 0) return rows;
  const chosen = rows.filter(({ form }) => form === forms[0]);
  return chosen.length > 0 ? chosen : [{ work, form: forms[0], connections: 32 }];
}

function split(text, known, option) {
  const words = text.split(',').filter((word) => word !== '');
  const unknown = known && words.find((word) => !known.includes(word));
  if (unknown !== undefined) throw new Error(`${option} ${unknown}: expected ${known.join(', ')}`);
  return words;
}

function toNumber(text, option) {
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  throw new Error(`${option} ${text}: expected a whole number above 0`);
}
