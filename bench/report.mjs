import { cpus } from 'node:os';
import { FORMS, WORKS } from './requests.mjs';
import { PEERS } from './servers.mjs';

const TITLES = { ...PEERS, against: 'the other build' };

/** The goals and the least acceptable ratios, by mode, work, form, connections and what is compared with. */
const GOALS = {
  'store W1/apollo ×32 mercurius': '2.5 / 1.8',
  'store W3/apollo ×32 mercurius': '2.0 / 1.5',
  'store W5/apollo ×32 mercurius': '1.5 / 1.2, p99 0.9 / 1.2',
  'store W1/apollo ×1 mercurius': '1.0 / 0.9',
  'store W1/apollo ×32 no-extensions': '0.97 / 0.92',
  'store W3/apollo ×32 no-extensions': '0.97 / 0.92',
  'store W1/include ×32 apollo': '0.95 / 0.85',
  'proxy W1/apollo ×32 mercurius': '1.6 / 1.2',
  'proxy W3/apollo ×32 mercurius': '1.6 / 1.2',
};

/** What a form is compared with in this program itself. */
const ITSELF = { apollo: 'no-extensions', include: 'apollo' };

/** Above this share of the server's core, taken by other processes, the figures say more about them. */
const QUIET = 0.05;

/** One table: a line for each row and each server or form that it is compared with. */
export function toMarkdown({ rows, failures, version }, options) {
  const head = ['request', 'conn.', 'this program', 'against', 'it', 'requests/s', 'CPU', 'p99', 'goal / at least'];
  const lines = rows.flatMap((row) => toLines(row, rows));
  const table = [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
  const notes = [describe(options, version), legend(rows), table, noise(rows)];
  if (failures.length > 0)
    notes.push(`Failed:\n\n${failures.map((failure) => `- ${failure.split('\n')[0]}`).join('\n')}`);
  return notes.filter((note) => note !== undefined).join('\n\n') + '\n';
}

function toLines(row, rows) {
  const ours = row.servers.ours?.figures ?? [];
  const compared = Object.entries(row.servers)
    .filter(([name]) => name !== 'ours')
    .map(([name, { figures }]) => ({ name, title: TITLES[name], figures }));
  const form = ITSELF[row.form];
  const other = rows.find((one) => one.mode === row.mode && one.work === row.work && one.form === form);
  if (other && row.connections === other.connections)
    compared.push({ name: form, title: `itself, ${FORMS[form].title}`, figures: other.servers.ours?.figures ?? [] });
  if (compared.length === 0) compared.push({ title: '–', figures: [] });
  const title = `${row.mode} ${row.work} ${row.form}`;
  return compared.map(({ name, title: against, figures }) => [
    title,
    String(row.connections),
    summary(ours),
    against,
    summary(figures),
    ratio(ours, figures, ({ perSecond }) => perSecond, true),
    ratio(figures, ours, ({ cpuMicros }) => cpuMicros),
    ratio(ours, figures, ({ p99 }) => p99),
    GOALS[`${row.mode} ${row.work}/${row.form} ×${row.connections} ${name}`] ?? '',
  ]);
}

function describe({ rounds, seconds, warmup }, version) {
  const [{ model }] = cpus();
  const date = new Date().toISOString().slice(0, 10);
  const database = version === undefined ? '' : `, ${version}`;
  return `${date}, ${cpus().length} × ${model.trim()}, Node ${process.versions.node}${database}. ${rounds} rounds of ${seconds} s after ${warmup} s of warm-up.`;
}

function legend(rows) {
  const works = [...new Set(rows.map(({ work }) => work))];
  return `${works.map((work) => `${work}: ${WORKS[work].title}.`).join(' ')}
"This program" and "it" are requests per second and p99 in ms, medians. The last columns are the medians of the rounds'
ratios, with the lowest and highest: requests per second (above 1: this program serves more), CPU time per request (above 1:
this program needs less) and p99 (below 1: this program is faster).`;
}

function noise(rows) {
  const all = rows.flatMap(({ servers }) => Object.values(servers).flatMap(({ figures }) => figures));
  const noisy = all.filter(({ others }) => others > QUIET).length;
  const share = `in ${noisy} of ${all.length} measurements, others used more than ${QUIET * 100} % of the server's core`;
  return noisy === 0 ? undefined : `**The machine was not quiet**: ${share}.`;
}

function summary(figures) {
  if (figures.length === 0) return '–';
  return `${median(figures.map(({ perSecond }) => perSecond)).toFixed(0)}, ${show(median(figures.map(({ p99 }) => p99)))}`;
}

/** Figures of the same round have the same minutes of the machine behind them, so they are divided round by round. */
function ratio(some, others, figure, isBold = false) {
  const ratios = some.flatMap((one) => {
    const other = others.find(({ round }) => round === one.round);
    return other ? [figure(one) / figure(other)] : [];
  });
  if (ratios.length === 0) return '–';
  const middle = show(median(ratios));
  return `${isBold ? `**${middle}**` : middle} (${show(Math.min(...ratios))}–${show(Math.max(...ratios))})`;
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const show = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));
