import type { CreatedKey, KeyEvent, KeyRecord } from '../store/postgres-key-store.js';
import type { PlanLimits } from '../access/plans.js';
import type { DeprecatedCaller, Usage } from '../access/usage.js';
import type { KeyStatus } from '../store/key-admin.js';

/** What `--json` prints of a new key: only this time with the key itself. */
export function toCreatedJson({ id, key, plan, label, limits, createdAt, expiresAt }: CreatedKey) {
  return { id, key, plan, label, limits, createdAt, expiresAt };
}

/** Usage is kept for a year. */
const YEAR_MS = 365 * 86_400_000;

function toLastUse({ lastUsedAt, createdAt }: KeyStatus): string {
  return formatTime(lastUsedAt, Date.now() - createdAt.getTime() < YEAR_MS ? 'never' : 'not in a year');
}

export function formatKeys(keys: readonly KeyStatus[]): string {
  const hasLeft = keys.some(({ left }) => left);
  return formatTable(
    ['id', 'plan', ...(hasLeft ? ['left min/day'] : []), 'last used', 'ends', 'label'],
    keys.map((key) => [
      ...[key.id, key.plan, ...(hasLeft ? [toLeft(key)] : [])],
      ...[toLastUse(key), toEnd(key), key.label ?? ''],
    ]),
  );
}

function toLeft({ left, bannedUntil }: KeyStatus): string {
  if (bannedUntil) return 'banned';
  return left ? `${left.minute}/${left.day}` : '';
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

const LEFT_UNKNOWN = 'counted in the memory of each server: with REDIS_URL, it is shown here';

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

export function formatUsage(usage: readonly Usage[]): string {
  const rows = usage.map(({ keyId, label, plan, client, operation, requests, cost, errors, refused, lastAt }) => {
    const who = [keyId, label ?? '', plan ?? '', client || NO_NAME];
    return [...who, operation, requests, cost, errors, refused, formatTime(lastAt)];
  });
  return formatTable(USAGE_HEADINGS, rows);
}

const USAGE_HEADINGS = 'key label plan client operation requests cost errors refused last'.split(' ');
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

export function describe(key: Pick<KeyRecord, 'id' | 'plan' | 'limits' | 'expiresAt'>): string {
  const end = key.expiresAt?.toISOString() ?? 'never';
  return `${key.id} (${key.plan}: ${formatLimits(key.limits)}, expires ${end})`;
}

function formatLimits({ perMinute, perDay }: PlanLimits): string {
  return `${perMinute} a minute, ${perDay} a day`;
}

/** Formats rows as columns. Two spaces separate them. */
export function formatTable(headings: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const lines = [headings, ...rows.map((row) => row.map(String))];
  const widths = headings.map((_, i) => lines.reduce((most, line) => Math.max(most, (line[i] as string).length), 0));
  const pad = (cell: string, column: number): string => cell.padEnd(widths[column] as number);
  return lines.map((line) => line.map(pad).join('  ').trimEnd()).join('\n');
}

/** In UTC, to the minute. */
export function formatTime(time: Date | null, otherwise = ''): string {
  return time?.toISOString().slice(0, 16).replace('T', ' ') ?? otherwise;
}
