import { cpus } from 'node:os';
import { WORKS } from './requests.mjs';
import { PEERS } from './servers.mjs';

/** The goals and the least acceptable ratios, by mode, work, form and connections. */
const GOALS = {
  'store W1/apollo ×32': 'mercurius 2.5 / 1.8, itself 0.97 / 0.92',
  'store W3/apollo ×32': 'mercurius 2.0 / 1.5, itself 0.97 / 0.92',
  'store W5/apollo ×32': 'mercurius 1.5 / 1.2, p99 0.9 / 1.2',
  'store W1/apollo ×1': 'mercurius 1.0 / 0.9',
  'store W1/include ×32': 'itself 0.95 / 0.85',
  'proxy W1/apollo ×32': 'mercurius 1.6 / 1.2',
  'proxy W3/apollo ×32': 'mercurius 1.6 / 1.2',
};

/** The form that a form of this program is compared with. */
const ITSELF = { apollo: 'no-extensions', include: 'apollo' };

/** Above this share of the server's core, used by other processes, the figures say more about them. */
const QUIET = 0.05;

/** One table with a line for each row. */
export function toMarkdown({ rows, failures, version }, { servers, rounds, seconds, warmup }) {
  const [first, ...others] = servers.slice(1).map((name) => ({ name, title: PEERS[name] ?? 'the other build' }));
  const firstHead = first ? [first.title, 'CPU', 'p99'] : [];
  const head = [
    'request',
    'conn.',
    'this program',
    ...firstHead,
    ...others.map(({ title }) => title),
    'itself',
    'goal / at least',
  ];
  const lines = rows.map((row) => {
    const figures = (name, of) => of?.servers[name]?.figures ?? [];
    const ours = figures('ours', row);
    const isBase = ({ mode, work, form, connections }) =>
      mode === row.mode && work === row.work && form === ITSELF[row.form] && connections === row.connections;
    const title = `${row.work}/${row.form} ×${row.connections}`;
    return [
      `${row.mode} ${row.work} ${row.form}`,
      row.connections,
      ours.length === 0 ? '–' : `${median(ours.map(perSecond)).toFixed(0)}, ${show(median(ours.map(p99)))} ms`,
      ...(first ? [ratio(ours, figures(first.name, row), perSecond)] : []),
      ...(first ? [ratio(figures(first.name, row), ours, cpu), ratio(ours, figures(first.name, row), p99)] : []),
      ...others.map(({ name }) => ratio(ours, figures(name, row), perSecond)),
      ratio(ours, figures('ours', rows.find(isBase)), perSecond),
      GOALS[`${row.mode} ${title}`] ?? '',
    ];
  });
  const table = [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
  const machine = `${cpus().length} × ${cpus()[0].model.trim()}, Node ${process.versions.node}${version ? `, ${version}` : ''}`;
  const works = [...new Set(rows.map(({ work }) => work))].map((work) => `${work}: ${WORKS[work].title}`).join('. ');
  return `${new Date().toISOString().slice(0, 10)}, ${machine}, ${rounds} rounds of ${seconds} s after ${warmup} s of warm-up.
"This program" is its requests per second and p99. The columns after it are ratios, this program to the other, median
(lowest–highest) of the rounds: requests per second, and for the first peer also CPU time saved per request (above 1: this
program needs less) and p99 (below 1: this program is faster). "Itself" compares ${Object.entries(ITSELF)
    .map((pair) => pair.join(' with '))
    .join(', ')}.
${works}.

${table}
${[noise(rows), ...failures.map((failure) => `Failed: ${failure.split('\n')[0]}`)].map((line) => `\n${line}\n`).join('')}`;
}

function noise(rows) {
  const all = rows.flatMap(({ servers }) => Object.values(servers).flatMap(({ figures }) => figures));
  const noisy = all.filter(({ others }) => others > QUIET).length;
  return `Others used more than ${QUIET * 100} % of the server's core in ${noisy} of ${all.length} measurements.`;
}

const perSecond = (figures) => figures.perSecond;
const p99 = (figures) => figures.p99;
const cpu = (figures) => figures.cpuMicros;

/** Figures of one round were measured in the same minutes, so they are divided round by round. */
function ratio(some, others, figure) {
  const ratios = some.flatMap((one) => {
    const other = others.find(({ round }) => round === one.round);
    return other ? [figure(one) / figure(other)] : [];
  });
  return ratios.length === 0
    ? ''
    : `${show(median(ratios))} (${show(Math.min(...ratios))}–${show(Math.max(...ratios))})`;
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const show = (value) => value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2);
