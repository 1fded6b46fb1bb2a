import type { CreatedKey, KeyEvent, KeyRecord } from '../store/postgres-key-store.js';
import type { PlanLimits } from '../access/plans.js';
import type { KeyStatus } from '../store/key-admin.js';

/** What `--json` prints of a new key. */
export function toCreatedJson({ id, key, plan, label, limits, createdAt, expiresAt }: CreatedKey) {
  return { id, key, plan, label, limits, createdAt, expiresAt };
}

/** Usage is kept for a year. */
const YEAR_MS = 365 * 86_400_000;

function formatLastUse({ lastUsedAt, createdAt }: KeyStatus): string {
  return formatTime(lastUsedAt, Date.now() - createdAt.getTime() < YEAR_MS ? 'never' : 'not in a year');
}

function formatEnd({ expiresAt, revokedAt }: KeyStatus): string {
  if (revokedAt) return 'revoked';
  if (expiresAt && expiresAt <= new Date()) return 'expired';
  return expiresAt ? formatDay(expiresAt) : 'never';
}

export function toKeyRows(keys: readonly KeyStatus[]): readonly object[] {
  const hasLeft = keys.some(({ left }) => left);
  return keys.map((key) => ({
    id: key.id,
    plan: formatPlan(key),
    ...(hasLeft && { 'left min/day': key.bannedUntil ? 'banned' : key.left && `${key.left.minute}/${key.left.day}` }),
    'last used': formatLastUse(key),
    ends: formatEnd(key),
    label: key.label,
  }));
}

export function describeStatus(key: KeyStatus): string {
  const { id, label, limits, left, bannedUntil, createdAt, expiresAt, revokedAt } = key;
  const lines = {
    id,
    label,
    plan: `${formatPlan(key)}: ${formatLimits(limits)}`,
    left: left
      ? `${left.minute} this minute, ${left.day} this day`
      : 'counted in the memory of each server while they share no Redis',
    banned: bannedUntil && `until ${formatTime(bannedUntil)}`,
    'last used': formatLastUse(key),
    created: formatTime(createdAt),
    expires: formatTime(expiresAt, 'never'),
    revoked: formatTime(revokedAt),
  };
  return Object.entries(lines)
    .filter(([, value]) => value)
    .map(([name, value]) => `${name.padEnd(10)}${value}`)
    .join('\n');
}

export function formatEvents(events: readonly KeyEvent[]): string {
  return formatTable(
    events.map(({ at: when, actor: who, action: did, keyId: key, changes }) => {
      const what = Object.entries(changes).map(([name, [from, to]]) => `${name}: ${format(from)} → ${format(to)}`);
      return { when, who, did, key, what: what.join(', ') };
    }),
  );
}

function format(value: unknown): string {
  if (value === null) return 'none';
  return typeof value === 'object' ? formatLimits(value as PlanLimits) : (value as string);
}

export function describe(key: Pick<KeyRecord, 'id' | 'plan' | 'readOnly' | 'limits' | 'expiresAt'>): string {
  const { id, limits, expiresAt } = key;
  return `${id} (${formatPlan(key)}: ${formatLimits(limits)}, expires ${expiresAt?.toISOString() ?? 'never'})`;
}

function formatPlan({ plan, readOnly }: Pick<KeyRecord, 'plan' | 'readOnly'>): string {
  return readOnly ? `${plan}, read-only` : plan;
}

function formatLimits({ perMinute, perDay }: PlanLimits): string {
  return `${perMinute} a minute, ${perDay} a day`;
}

export type Cell = string | number | Date | null;

/** Returns the names of the columns in words, such as `last at` for `lastAt`, and then the cells of each row. */
export function toTable(rows: readonly object[]): readonly (readonly Cell[])[] {
  const names = Object.keys(rows[0] ?? {}).map((name) => name.replace(/[A-Z]/g, ' $&').toLowerCase());
  return [names, ...rows.map((row) => Object.values(row) as Cell[])];
}

/** Formats rows that have the same properties. Without rows, the text is empty. */
export function formatTable(rows: readonly object[]): string {
  const lines = toTable(rows).map((cells) => cells.map(formatCell));
  const widths: number[] = [];
  for (const line of lines) for (const [i, { length }] of line.entries()) widths[i] = Math.max(widths[i] ?? 0, length);
  return lines
    .map((line) =>
      line
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export function formatCell(cell: Cell): string {
  return cell instanceof Date ? formatTime(cell) : String(cell ?? '');
}

/** In UTC, to the minute. */
export function formatTime(time: Date | null, otherwise = ''): string {
  return time?.toISOString().slice(0, 16).replace('T', ' ') ?? otherwise;
}

export function formatDay(time: Date): string {
  return time.toISOString().slice(0, 10);
}
