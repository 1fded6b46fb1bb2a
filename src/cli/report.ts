import { readFile } from 'node:fs/promises';
import type { KeyReport } from '../store/key-admin.js';
import { formatCell, formatTime, toKeyRows, toTable, type Cell } from './keys-output.js';

const PAGE = new URL('../../dist/public/report.html', import.meta.url);

/** Renders the page about all keys, which needs no other file. What strangers have chosen, such as labels, is escaped. */
export async function renderReport(report: KeyReport, store: string): Promise<string> {
  const { days, used, refused, unused, expiring, deprecated, ...counts } = report;
  const costs = days.map(({ cost }) => cost);
  const cost = addUp(costs.slice(-30));
  const values: Readonly<Record<string, string | number>> = {
    ...{ ...counts, store, cost, now: formatTime(new Date()), costBefore: addUp(costs.slice(-60, -30)) },
    mostRequests: Math.max(...days.map(({ requests }) => requests)),
    mostKeys: Math.max(...days.map(({ keys }) => keys)),
    share: Math.round((100 * addUp(used.map((key) => key.cost))) / (cost || 1)),
  };
  const parts: Readonly<Record<string, string>> = {
    requestsByDay: plot(
      'Requests by day',
      days.map(({ startsAt, requests, errors, refused }) => ({
        title: `${formatTime(startsAt)}: ${requests}`,
        values: { refused, errors: errors - refused, answered: requests - errors },
      })),
    ),
    keysByDay: plot(
      'Keys by day',
      days.map(({ startsAt, keys }) => ({ title: `${formatTime(startsAt)}: ${keys}`, values: { keys } })),
    ),
    days: table(days),
    used: table(used),
    refused: table(refused),
    unused: table(toKeyRows(unused)),
    expiring: table(toKeyRows(expiring)),
    deprecated: table(deprecated),
  };
  const page = await readFile(PAGE, 'utf8');
  return page.replace(/\{\{(\w+)\}\}/g, (_, name: string) => parts[name] ?? toHtml(values[name] ?? null));
}

function plot(label: string, columns: readonly { title: string; values: Readonly<Record<string, number>> }[]): string {
  const most = Math.max(...columns.map(({ values }) => addUp(Object.values(values)))) || 1;
  const drawn = columns.map(({ title, values }, x) => {
    let y = 100;
    const parts = Object.entries(values).map(([name, value]) => {
      const height = (100 * value) / most;
      y -= height;
      return `<rect class="${name}" x="${x}" y="${y.toFixed(2)}" width=".8" height="${height.toFixed(2)}"/>`;
    });
    return `<g><title>${title}</title>${parts.join('')}</g>`;
  });
  const size = `viewBox="0 0 ${columns.length} 100" preserveAspectRatio="none"`;
  return `<svg role="img" aria-label="${label}" ${size}>${drawn.join('')}</svg>`;
}

/** A wide table scrolls, also with the keyboard. */
function table(rows: readonly object[]): string {
  if (rows.length === 0) return '<p>None.</p>';
  const [head, ...lines] = toTable(rows).map((cells, line) => {
    const tag = line === 0 ? 'th' : 'td';
    const isNumber = (cell: Cell): string => (typeof cell === 'number' ? ' class="number"' : '');
    return `<tr>${cells.map((cell) => `<${tag}${isNumber(cell)}>${toHtml(cell)}</${tag}>`).join('')}</tr>`;
  });
  return `<table tabindex="0"><thead>${head}</thead><tbody>${lines.join('\n')}</tbody></table>`;
}

function toHtml(cell: Cell): string {
  if (typeof cell === 'number') return cell.toLocaleString('en');
  return formatCell(cell).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

function addUp(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
