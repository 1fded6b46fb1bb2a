import type { KeyUsage } from '../../packages/client/src/key.js';

export type UsageRow = KeyUsage['rows'][number];

/** The operations with a color of their own. The others share the last one. */
const MAX_SERIES = 4;
const OTHERS = 'all others';
/** The marks of a day. */
const ERRORS = '▲';
const DEPRECATED = '◆';
const HEIGHT = 220;
const LEFT = 48;
/** Room for the marks. */
const TOP = 34;
const BOTTOM = 24;
const DAY_MS = 86_400_000;
/** How much usage the page asks for. */
export const DAYS = 30;

/** Draws the cost of each day, stacked by operation, with marks on the days with errors and deprecated calls. */
export function drawUsage(plot: HTMLElement, legend: HTMLElement, { since, rows }: KeyUsage): void {
  const costs = sumBy(rows, ({ operation }) => operation);
  const names = [...costs.keys()].slice(0, MAX_SERIES);
  const nameOf = ({ operation }: UsageRow): string => (names.includes(operation) ? operation : OTHERS);
  const series = costs.size > MAX_SERIES ? [...names, OTHERS] : names;
  const days = toDays(since);
  const rowsOf = days.map((day) => rows.filter((row) => row.day === day));
  const highest = Math.max(1, ...rowsOf.map((of) => sum(of, 'cost')));

  const width = Math.max(280, plot.clientWidth);
  const step = (width - LEFT) / days.length;
  const toY = (cost: number): number => HEIGHT - BOTTOM - (cost / highest) * (HEIGHT - TOP - BOTTOM);
  const label = 'Requests by day and operation. The table has the numbers.';
  const svg = create('svg', { role: 'img', 'aria-label': label, viewBox: `0 0 ${width} ${HEIGHT}` });
  const add = (...shape: Parameters<typeof create>): void => svg.append(create(...shape));
  for (const cost of [0, highest]) {
    add('path', { class: 'grid', d: `M${LEFT} ${toY(cost)}H${width}` });
    add('text', { x: LEFT - 6, y: toY(cost) + 4, 'text-anchor': 'end' }, format(cost));
  }
  for (const [index, day] of days.entries()) {
    const of = rowsOf[index] as UsageRow[];
    const x = LEFT + index * step;
    const shares = sumBy(of, nameOf);
    let cost = 0;
    for (const [order, name] of series.entries()) {
      const share = shares.get(name) ?? 0;
      cost += share;
      const size = {
        x: x + 1,
        y: toY(cost),
        width: step - 2,
        height: Math.max(0, toY(cost - share) - toY(cost) - 0.5),
      };
      if (share > 0) add('rect', { class: `series-${order}`, ...size }, `${day}: ${name}, ${format(share)}`);
    }
    const place = { x: x + step / 2, 'text-anchor': 'middle' };
    if (sum(of, 'errors') > 0) add('text', { ...place, class: 'error', y: 12 }, ERRORS);
    if (sum(of, 'deprecatedCalls') > 0) add('text', { ...place, class: 'deprecated', y: 26 }, DEPRECATED);
  }
  add('text', { x: LEFT, y: HEIGHT - 6 }, days[0]);
  add('text', { x: width, y: HEIGHT - 6, 'text-anchor': 'end' }, days.at(-1));
  plot.replaceChildren(svg);

  const total = sumBy(rows, nameOf);
  const entries = series.map((name, order) =>
    toEntry(`series-${order}`, '■', `${name}: ${format(total.get(name) ?? 0)}`),
  );
  if (sum(rows, 'errors') > 0) entries.push(toEntry('error', ERRORS, 'a day with errors'));
  if (sum(rows, 'deprecatedCalls') > 0) entries.push(toEntry('deprecated', DEPRECATED, 'a day with deprecated calls'));
  legend.replaceChildren(...entries);
}

/** Returns the days that the page asked for, the last one today. The browser's date may be wrong. */
export function toDays(since: string): string[] {
  const first = Date.parse(since);
  return Array.from({ length: DAYS }, (_, day) => new Date(first + day * DAY_MS).toISOString().slice(0, 10));
}

export function sum(rows: readonly UsageRow[], name: 'cost' | 'errors' | 'deprecatedCalls'): number {
  return rows.reduce((total, row) => total + row[name], 0);
}

/** Adds up the cost by a name, the highest first. */
export function sumBy(rows: readonly UsageRow[], nameOf: (row: UsageRow) => string): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const row of rows) sums.set(nameOf(row), (sums.get(nameOf(row)) ?? 0) + row.cost);
  return new Map([...sums].sort(([, a], [, b]) => b - a));
}

export function format(number: number): string {
  return number.toLocaleString('en');
}

function toEntry(className: string, sign: string, text: string): HTMLElement {
  const item = document.createElement('li');
  item.append(Object.assign(document.createElement('span'), { className, textContent: sign }), ` ${text}`);
  return item;
}

/** @param text - of a text; of another shape, its tooltip */
function create(name: string, attributes: Readonly<Record<string, string | number>>, text?: string): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, String(value));
  if (name === 'text' || name === 'title') element.textContent = text ?? '';
  else if (text !== undefined) element.append(create('title', {}, text));
  return element;
}
