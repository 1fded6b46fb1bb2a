import type { CreatedKey, KeyEvent, KeyRecord } from '../store/postgres-key-store.js';
import type { PlanLimits } from '../access/plans.js';
import type { DeprecatedCaller, Usage } from '../access/usage.js';
import type { KeyStatus } from '../store/key-admin.js';

/** What `--json` prints of a new key. */
export function toCreatedJson({ id, key, plan, label, limits, createdAt, expiresAt }: CreatedKey) {
  return { id, key, plan, label, limits, createdAt, expiresAt };
}

/** Usage is kept for a year. */
const YEAR_MS = 365 * 86_400_000;
const NO_NAME = '(no name)';

function toLastUse({ lastUsedAt, createdAt }: KeyStatus): string {
  return formatTime(lastUsedAt, Date.now() - createdAt.getTime() < YEAR_MS ? 'never' : 'not in a year');
}

function toEnd({ expiresAt, revokedAt }: Pick<KeyRecord, 'expiresAt' | 'revokedAt'>): string {
  if (revokedAt) return 'revoked';
  if (expiresAt && expiresAt <= new Date()) return 'expired';
  return expiresAt?.toISOString().slice(0, 10) ?? 'never';
}

export function formatKeys(keys: readonly KeyStatus[]): string {
  const hasLeft = keys.some(({ left }) => left);
  const rows = keys.map((key) => ({
    id: key.id,
    plan: key.plan,
    ...(hasLeft && { 'left min/day': key.bannedUntil ? 'banned' : key.left && `${key.left.minute}/${key.left.day}` }),
    'last used': toLastUse(key),
    ends: toEnd(key),
    label: key.label,
  }));
  return formatTable(rows);
}

export function describeStatus(key: KeyStatus): string {
  const { id, label, plan, limits, left, bannedUntil, createdAt, expiresAt, revokedAt } = key;
  const lines = {
    id,
    label,
    plan: `${plan}: ${formatLimits(limits)}`,
    left: left
      ? `${left.minute} this minute, ${left.day} this day`
      : 'counted in the memory of each server: with REDIS_URL, it is shown here',
    banned: bannedUntil && `until ${formatTime(bannedUntil)}`,
    'last used': toLastUse(key),
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
  const rows = events.map(({ at, actor: who, action: did, keyId: key, changes }) => {
    const what = Object.entries(changes).map(([name, [from, to]]) => `${name}: ${toText(from)} → ${toText(to)}`);
    return { when: formatTime(at), who, did, key, what: what.join(', ') };
  });
  return formatTable(rows);
}

function toText(value: unknown): string {
  if (value === null) return 'none';
  return typeof value === 'string' ? value : formatLimits(value as PlanLimits);
}

export function formatUsage(usage: readonly Usage[]): string {
  const rows = usage.map(({ keyId: key, label, plan, client, operation, requests, cost, errors, refused, lastAt }) => {
    const who = { key, label, plan, client: client || NO_NAME };
    return { ...who, operation, requests, cost, errors, refused, last: formatTime(lastAt) };
  });
  return formatTable(rows);
}

export function formatCallers(callers: readonly DeprecatedCaller[]): string {
  const rows = callers.map((caller) => ({
    key: caller.keyId,
    label: caller.label,
    plan: caller.plan,
    'key ended': ['revoked', 'expired'].includes(toEnd(caller)) ? 'yes' : '',
    client: caller.client ?? NO_NAME,
    through: `${caller.through === 'rest' ? 'REST' : 'GraphQL'} ${caller.coordinate}`,
    calls: caller.calls,
    last: formatTime(caller.lastAt),
  }));
  return formatTable(rows);
}

export function describe({
  id,
  plan,
  limits,
  expiresAt,
}: Pick<KeyRecord, 'id' | 'plan' | 'limits' | 'expiresAt'>): string {
  return `${id} (${plan}: ${formatLimits(limits)}, expires ${expiresAt?.toISOString() ?? 'never'})`;
}

function formatLimits({ perMinute, perDay }: PlanLimits): string {
  return `${perMinute} a minute, ${perDay} a day`;
}

/** Formats rows with the same properties. Without rows, the text is empty. */
export function formatTable(rows: readonly Readonly<Record<string, string | number | null>>[]): string {
  const lines = [
    Object.keys(rows[0] ?? {}),
    ...rows.map((row) => Object.values(row).map((cell) => String(cell ?? ''))),
  ];
  const widths = lines[0]?.map((_, i) => lines.reduce((most, line) => Math.max(most, (line[i] as string).length), 0));
  const pad = (cell: string, column: number): string => cell.padEnd(widths?.[column] ?? 0);
  return lines.map((line) => line.map(pad).join('  ').trimEnd()).join('\n');
}

/** In UTC, to the minute. */
export function formatTime(time: Date | null, otherwise = ''): string {
  return time?.toISOString().slice(0, 16).replace('T', ' ') ?? otherwise;
}
