import { InvalidArgumentError } from 'commander';

const UNITS_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function toCount(text: string): number {
  const count = Number(text);
  if (/^[1-9]\d{0,9}$/.test(text) && count <= 2_147_483_647) return count;
  throw new InvalidArgumentError('It must be a whole number from 1 to 2147483647.');
}

const ISO_DATE = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

/** A moment in the years 1 to 9999: a day in UTC, or a time with its zone. */
export function toDate(text: string): Date {
  const [, day] = ISO_DATE.exec(text) ?? [];
  const date = new Date(text);
  // JavaScript converts 31 February to 3 March, so compare the day. It writes the years 0 and 10000 as 0000 and +010000.
  const isDate = /^(?!0000)\d/.test(date.toJSON());
  if (day !== undefined && isDate && new Date(day).toISOString().startsWith(day)) return date;
  throw new InvalidArgumentError('It must be an ISO date, such as 2027-01-31 or 2027-01-31T12:00:00Z.');
}

export function toMilliseconds(text: string): number {
  const [, count, unit] = /^(\d{1,9})([smhd])$/.exec(text === '0' ? '0s' : text) ?? [];
  if (count === undefined) throw new InvalidArgumentError('It must be a time such as 0, 90s, 30m, 24h or 7d.');
  const time = Number(count) * UNITS_MS[unit as keyof typeof UNITS_MS];
  if (time > 365 * UNITS_MS.d) throw new InvalidArgumentError('It must be at most 365d.');
  return time;
}
