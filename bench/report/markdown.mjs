import { WORKS } from '../data/operations.mjs';
import { SERVERS } from '../servers/registry.mjs';
import { judge } from './goals.mjs';
import { ratio, spread } from './statistics.mjs';

const perSecond = (figures) => figures.perSecond;
const cpu = (figures) => figures.cpuMicros;

/** The whole report of a run. */
export function toMarkdown({ machine, results }, options) {
  return [
    '# Benchmark results',
    describe(machine, options),
    ...warnings(results),
    ...goalTable(results),
    ...ratioTables(results, {
      title: 'Requests per second: this program ÷ other (over 1: this program is faster)',
      of: (ours, others) => ratio(ours, others, perSecond),
    }),
    ...ratioTables(results, {
      title: 'CPU time per request: other ÷ this program (over 1: this program needs less)',
      of: (ours, others) => ratio(others, ours, cpu),
    }),
    '## All figures',
    FIGURES_NOTE,
    ...results.flatMap(figureTables),
    ...failures(results),
  ].join('\n\n');
}

const FIGURES_NOTE =
  'Medians, with the lowest and highest of the rounds in parentheses. *Server busy* is the share of its core that the server used: well below 100 % it had to wait for the other side, and its requests per second are not its limit. *Load busy* is the core of the load generator, PostgreSQL or the upstream; *others* is what strangers took of the server’s core.';

function describe(machine, { rounds, seconds, warmup, pool }) {
  return [
    `${machine.date}, ${machine.cpu}, ${machine.memory}; Node ${machine.node}, flags for all: ${machine.flags};`,
    `${machine.postgres ? `PostgreSQL ${machine.postgres}, ${pool} connections each; ` : ''}${machine.cores}.`,
    `${rounds} alternating rounds of ${seconds} s after ${warmup} s of warm-up. Ratios are medians of the rounds’ ratios (lowest–highest).`,
  ].join(' ');
}

/** Above this share of the server's core, taken by others, a figure says more about them. */
const QUIET = 0.05;

function warnings(results) {
  const rounds = results.flatMap(({ servers }) =>
    [...servers.values()].flatMap(({ byConnections }) => [...byConnections.values()].flat()),
  );
  const noisy = rounds.filter(({ foreign }) => foreign > QUIET).length;
  if (noisy === 0) return [];
  return [
    `**The machine was not quiet**: in ${noisy} of ${rounds.length} measurements others took more than ${QUIET * 100} % of the server’s core. CPU time per request still tells something; the rest does not.`,
  ];
}

function goalTable(results) {
  const rows = judge(results).map(({ mode, work, peer, connections, name, goal, least, measured, verdict }) => [
    `${mode} ${work}, ×${connections}`,
    `${name} against ${SERVERS[peer].title}`,
    `**${number(measured.median)}** (${range(measured)})`,
    `${goal} / ${least}`,
    verdict,
  ]);
  if (rows.length === 0) return [];
  return ['## Goals', table(['work', 'ratio', 'measured', 'goal / at least', ''], rows)];
}

/** One table for each mode and number of connections: a line for each server, a column for each work. */
function ratioTables(results, { title, of }) {
  const tables = cells(results).flatMap(({ mode, connections, inMode }) => {
    const names = [...new Set(inMode.flatMap(({ servers }) => [...servers.keys()]))].filter((name) => name !== 'ours');
    const roundsOf = (result, name) => result.servers.get(name)?.byConnections.get(connections) ?? [];
    const rows = names.map((name) => [
      SERVERS[name].title,
      ...inMode.map((result) => {
        const ours = roundsOf(result, 'ours');
        const others = roundsOf(result, name);
        if (ours.length === 0 || others.length === 0) return '–';
        const measured = of(ours, others);
        return Number.isNaN(measured.median) ? '–' : `**${number(measured.median)}** (${range(measured)})`;
      }),
    ]);
    if (rows.length === 0 || !inMode.some(({ servers }) => servers.has('ours'))) return [];
    const head = ['against', ...inMode.map(({ work }) => work)];
    return [`${capital(mode)}, ${connections} ${connections === 1 ? 'connection' : 'connections'}`, table(head, rows)];
  });
  return tables.length === 0 ? [] : [`## ${title}`, ...tables];
}

function cells(results) {
  return [...new Set(results.map(({ mode }) => mode))].flatMap((mode) => {
    const ofMode = results.filter((result) => result.mode === mode);
    const counts = new Set(ofMode.flatMap(countsOf));
    return [...counts].map((connections) => {
      const inMode = ofMode.filter((result) => countsOf(result).includes(connections));
      return { mode, connections, inMode };
    });
  });
}

/** The numbers of connections at which a work was measured. */
function countsOf({ servers }) {
  const [{ byConnections }] = servers.values();
  return [...byConnections.keys()];
}

function figureTables({ mode, work, servers }) {
  const rows = [...servers].flatMap(([name, { byConnections }]) =>
    [...byConnections].flatMap(([connections, rounds]) => {
      if (rounds.length === 0) return [];
      const one = (figure) => spread(rounds, figure);
      const rate = one(perSecond);
      const share = (figure) => `${Math.round(one(figure).median * 100)} %`;
      return [
        {
          connections,
          cells: [
            `×${connections}`,
            SERVERS[name].title,
            `${rate.median.toFixed(0)} (${rate.low.toFixed(0)}–${rate.high.toFixed(0)})`,
            number(one(({ p50 }) => p50).median),
            number(one(({ p99 }) => p99).median),
            one(cpu).median.toFixed(0),
            one(({ generatorMicros }) => generatorMicros).median.toFixed(0),
            share(({ serverBusy }) => serverBusy),
            share(({ loadBusy }) => loadBusy),
            share(({ foreign }) => foreign),
          ],
        },
      ];
    }),
  );
  rows.sort((a, b) => a.connections - b.connections);
  const head = [
    '',
    'server',
    'requests/s',
    'p50 ms',
    'p99 ms',
    'CPU µs/request',
    'generator µs/request',
    'server busy',
    'load busy',
    'others',
  ];
  const body = table(
    head,
    rows.map((row) => row.cells),
  );
  return [`### ${capital(mode)} ${work}: ${WORKS[work].title}`, body];
}

function failures(results) {
  const lines = results.flatMap(({ mode, work, servers }) =>
    [...servers].flatMap(([name, { failure }]) =>
      failure === undefined ? [] : [`- ${mode} ${work}, ${SERVERS[name].title}: ${failure.split('\n')[0]}`],
    ),
  );
  return lines.length === 0 ? [] : ['## Not measured', lines.join('\n')];
}

/** The last of some figures over the first. */
export function toRatio(figures) {
  return figures.length < 2 ? '–' : `**${number(figures.at(-1) / figures[0])}**`;
}

/** A Markdown table. */
export function table(head, rows) {
  const line = (row) => `| ${row.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

const number = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));
const range = ({ low, high }) => `${number(low)}–${number(high)}`;
const capital = (word) => word[0].toUpperCase() + word.slice(1);
