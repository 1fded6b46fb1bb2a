import { cpus } from 'node:os';
import { PEERS } from './servers.mjs';

/** The goals and the least acceptable ratios, by mode, work, form and connections. */
const GOALS = {
  'store W1/apollo ×32': 'mercurius 2.5 / 1.8, itself 0.97 / 0.92',
  'store W3/apollo ×32': 'mercurius 2.0 / 1.5, itself 0.97 / 0.92',
  'store W5/apollo ×32': 'mercurius 1.5 / 1.2, p99 0.9 / 1.2',
  'store W1/apollo ×1': 'mercurius 1.0 / 0.9',
  'store W1/include ×32': 'itself 0.95 / 0.85',
  'store W1/trusted ×32': 'itself – / 1.05',
  'store W3/trusted ×32': 'itself – / 1.05',
  'proxy W1/apollo ×32': 'mercurius 1.6 / 1.2',
  'proxy W3/apollo ×32': 'mercurius 1.6 / 1.2',
};

/** The form that a form of this program is compared with. */
const ITSELF = { apollo: 'no-extensions', include: 'apollo', trusted: 'apollo' };

/** Above this share of the server's core, used by other processes, the figures say more about them. */
const QUIET = 0.05;

/** One table with a line for each row. The first server after this program is compared in CPU time and p99, too. */
export function toMarkdown({ rows, failures, version }, { servers, rounds, seconds, warmup }) {
  const [first, ...others] = servers.slice(1);
  const titles = servers.slice(1).map((name) => PEERS[name] ?? 'the other build');
  if (first) titles.splice(1, 0, 'its CPU', 'its p99');
  const head = ['request', 'this program', ...titles, 'itself', 'CPU of itself', 'goal / at least'];
  // The figures of `no-extensions` are in the column "itself" of the Apollo form.
  const shown = rows.filter(({ form }) => form !== ITSELF.apollo);
  const lines = shown.map((row) => {
    const { mode, work, form, connections } = row;
    const of = (name) => row.servers[name]?.figures ?? [];
    const ours = of('ours');
    const base = rows.find((one) => one.mode === mode && one.work === work && one.form === ITSELF[form]);
    const itself = base?.connections === connections ? (base.servers.ours?.figures ?? []) : [];
    return [
      `${mode} ${work} ${form}${connections === 32 ? '' : ` ×${connections}`}`,
      ours.length === 0
        ? '–'
        : `${median(ours.map((one) => one.perSecond)).toFixed(0)}, ${show(median(ours.map((one) => one.p99)))} ms`,
      ...(first
        ? [ratio(ours, of(first), 'perSecond'), ratio(of(first), ours, 'cpuMicros'), ratio(ours, of(first), 'p99')]
        : []),
      ...others.map((name) => ratio(ours, of(name), 'perSecond')),
      ratio(ours, itself, 'perSecond'),
      ratio(itself, ours, 'cpuMicros'),
      GOALS[`${mode} ${work}/${form} ×${connections}`] ?? '',
    ];
  });
  const table = [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
  const date = new Date().toISOString().slice(0, 10);
  const [{ model }] = cpus();
  return `${date}, ${cpus().length} × ${model.trim()}, Node ${process.versions.node}${version ? `, ${version}` : ''}; ${rounds} rounds of ${seconds} s after ${warmup} s of CPU time of warm-up per row.
"This program" is its requests per second and p99, over 32 connections unless the row says otherwise. The other columns are
ratios, median (lowest–highest) of the rounds: this program's requests per second to the other's; the other's CPU time per
request to this program's; this program's p99 to the other's. "Itself" compares the Apollo form with \`no-extensions\`, and
\`include\` and \`trusted\` with the Apollo form; "CPU of itself" is the other form's CPU time per request to this form's.

${table}
${[noise(rows), ...failures.map((failure) => `Failed: ${failure.split('\n')[0]}`)].map((line) => `\n${line}\n`).join('')}`;
}

function noise(rows) {
  const all = rows.flatMap(({ servers }) => Object.values(servers).flatMap(({ figures }) => figures));
  const noisy = all.filter(({ others }) => others > QUIET).length;
  return `Others used more than ${QUIET * 100} % of the server's core in ${noisy} of ${all.length} measurements.`;
}

/** Figures of one round were measured in the same minutes, so they are divided round by round. */
function ratio(some, others, figure) {
  const ratios = some.flatMap((one) => {
    const other = others.find(({ round }) => round === one.round);
    return other ? [one[figure] / other[figure]] : [];
  });
  return ratios.length === 0 ? '' : formatRange(ratios, show);
}

/** The median, with the lowest and the highest value. */
export function formatRange(values, format) {
  return `${format(median(values))} (${format(Math.min(...values))}–${format(Math.max(...values))})`;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const show = (value) => value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2);
