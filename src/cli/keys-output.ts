import type { CreatedKey, KeyEvent, KeyRecord } from '../store/postgres-key-store.js';
import type { PlanLimits } from '../access/plans.js';
import type { DeprecatedCaller, Usage, UsageGroup } from '../access/usage.js';
import type { KeyStatus } from '../store/key-admin.js';

/** What `--json` prints of a new key: only this time with the key itself. */
export function toCreatedJson({ id, key, plan, label, limits, createdAt, expiresAt }: CreatedKey): object {
  return { id, key, plan, label, limits, createdAt, expiresAt };
}

/** Usage is kept for a year. */
const YEAR_MS = 365 * 86_400_000;

function toLastUse({ lastUsedAt, createdAt }: KeyStatus): string {
  return formatTime(lastUsedAt, Date.now() - createdAt.getTime() < YEAR_MS ? 'never' : 'not in a year');
}

export function formatKeys(keys: readonly KeyStatus[]): string {
  return formatTable(
    ['id', 'plan', 'left min/day', 'last used', 'ends', 'label'],
    keys.map((key) => [key.id, key.plan, toLeft(key), toLastUse(key), toEnd(key), key.label ?? '']),
  );
}

function toLeft({ left, bannedUntil }: KeyStatus): string {
  if (bannedUntil) return 'banned';
  return left ? `${left.minute}/${left.day}` : 'unknown';
}

function toEnd({ expiresAt, revokedAt }: Pick<KeyRecord, 'expiresAt' | 'revokedAt'>): string {
  if (revokedAt) return 'revoked';
  if (expiresAt && expiresAt <= new Date()) return 'expired';
  return expiresAt?.toISOString().slice(0, 10) ?? 'never';
}

export function describeStatus(key: KeyStatus): string {
  const { id, label, plan, limits, left, bannedUntil, createdAt, expiresAt, revokedAt } = key;
  const rows = [
    ['id', id],
    ['label', label ?? ''],
    ['plan', `${plan}: ${formatLimits(limits)}`],
    ['left', left ? `${left.minute} this minute, ${left.day} this day` : LEFT_UNKNOWN],
    ['banned', formatTime(bannedUntil) && `until ${formatTime(bannedUntil)}`],
    ['last used', toLastUse(key)],
    ['created', formatTime(createdAt)],
    ['expires', formatTime(expiresAt, 'never')],
    ['revoked', formatTime(revokedAt)],
  ];
  return rows
    .filter(([, value]) => value !== '')
    .map(([name, value]) => `${name?.padEnd(10)}${value}`)
    .join('\n');
}

const LEFT_UNKNOWN = 'unknown: each server counts for itself, unless REDIS_URL names a Redis that can be reached';

export function formatEvents(events: readonly KeyEvent[]): string {
  const rows = events.map(({ at, actor, action, keyId, changes }) => {
    const what = Object.entries(changes).map(([name, [from, to]]) => `${name}: ${toText(from)} → ${toText(to)}`);
    return [formatTime(at), actor, action, keyId, what.join(', ')];
  });
  return formatTable(['when', 'who', 'did', 'key', 'what'], rows);
}

function toText(value: unknown): string {
  if (value === null) return 'none';
  return typeof value === 'string' ? value : formatLimits(value as PlanLimits);
}

export function formatUsage(usage: readonly Usage[], groups: readonly UsageGroup[]): string {
  const headings = groups.flatMap((group) => (group === 'key' ? ['key', 'label', 'plan'] : group));
  const rows = usage.map((sums) => {
    const { keyId = '', label, plan, client, operation = '', day = null, hour = null } = sums;
    const cells: Record<UsageGroup, string[]> = {
      key: [keyId, label ?? '', plan ?? ''],
      client: [client || NO_NAME],
      operation: [operation],
      day: [formatTime(day).slice(0, 10)],
      hour: [formatTime(hour)],
    };
    const { requests, cost, errors, refused, lastAt } = sums;
    return [...groups.flatMap((group) => cells[group]), requests, cost, errors, refused, formatTime(lastAt)];
  });
  return formatTable([...headings, 'requests', 'cost', 'errors', 'refused', 'last'], rows);
}

const NO_NAME = '(no name)';
const FACES = { graphql: 'GraphQL', rest: 'REST' };

export function formatCallers(callers: readonly DeprecatedCaller[]): string {
  const rows = callers.map((caller) => {
    const { keyId, label, plan, client, through, coordinate, calls, lastAt } = caller;
    const hasEnded = ['revoked', 'expired'].includes(toEnd(caller)) ? 'yes' : '';
    const called = `${FACES[through]} ${coordinate}`;
    return [keyId, label ?? '', plan ?? '', hasEnded, client ?? NO_NAME, called, calls, formatTime(lastAt)];
  });
  return formatTable(['key', 'label', 'plan', 'key ended', 'client', 'through', 'calls', 'last'], rows);
}

export function describe({ id, plan, limits, expiresAt }: KeyRecord | KeyStatus): string {
  const end = expiresAt?.toISOString() ?? 'never';
  return `${id} (${plan}: ${formatLimits(limits)}, expires ${end})`;
}

function formatLimits({ perMinute, perDay }: PlanLimits): string {
  return `${perMinute} a minute, ${perDay} a day`;
}

/** Columns whose values may have any length. */
const FREE_TEXT: readonly string[] = ['label', 'client', 'operation', 'who', 'what'];
const LEAST_WIDTH = 4;

/**
 * Formats rows as a table. If it is wider than the terminal, columns of free text are cut, the widest first. If that is
 * not enough, each row is a block of lines instead.
 */
export function formatTable(
  headings: readonly string[],
  rows: readonly (readonly (string | number)[])[],
  width = terminalWidth(),
): string {
  const lines = [headings, ...rows.map((row) => row.map(String))];
  const widths = headings.map((_, i) => Math.max(...lines.map((line) => widthOf(line[i] as string))));
  const freeWidths = (): number[] => widths.map((own, i) => (FREE_TEXT.includes(headings[i] as string) ? own : 0));
  for (let excess = sum(widths) + 2 * (widths.length - 1) - width; excess > 0; excess--) {
    const widest = Math.max(...freeWidths());
    if (widest <= LEAST_WIDTH) return formatBlocks(headings, lines.slice(1), width);
    widths[freeWidths().indexOf(widest)] = widest - 1;
  }
  const isNumeric = headings.map((_, i) => rows.length > 0 && rows.every((row) => typeof row[i] === 'number'));
  const toCell = (text: string, i: number): string => fit(text, widths[i] as number, isNumeric[i] as boolean);
  return lines.map((line) => line.map(toCell).join('  ').trimEnd()).join('\n');
}

/** Formats each row as lines of a heading and a value. Empty values are left out. */
function formatBlocks(headings: readonly string[], rows: readonly (readonly string[])[], width: number): string {
  const indent = Math.max(...headings.map(widthOf)) + 2;
  const room = Math.max(LEAST_WIDTH, width - indent);
  const toLine = (value: string, i: number): string =>
    `${(headings[i] as string).padEnd(indent)}${fit(value, room, false).trimEnd()}`;
  return rows.map((row) => row.flatMap((value, i) => (value === '' ? [] : [toLine(value, i)])).join('\n')).join('\n\n');
}

/** Output that is not read on a terminal is not cut. */
function terminalWidth(): number {
  return process.stdout.isTTY ? process.stdout.columns : Number(process.env.COLUMNS) || Infinity;
}

function fit(text: string, width: number, isNumeric: boolean): string {
  const characters = charactersOf(text);
  if (widthOf(text) > width) {
    while (widthOf(characters.join('')) > width - 1) characters.pop();
    characters.push('…');
  }
  const cut = characters.join('');
  const space = ' '.repeat(Math.max(0, width - widthOf(cut)));
  return isNumeric ? space + cut : cut + space;
}

/** Characters that take two columns of a terminal. */
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;

function widthOf(text: string): number {
  return sum(charactersOf(text).map((character) => (WIDE.test(character) ? 2 : 1)));
}

function charactersOf(text: string): string[] {
  return Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

/** Formats a time in UTC, to the minute. */
export function formatTime(time: Date | null, otherwise = ''): string {
  return time?.toISOString().slice(0, 16).replace('T', ' ') ?? otherwise;
}
