/** When the lookup by id (`GET /pets/{petId}`, `Query.pet`) will be removed. */
export const LOOKUP_SUNSET = new Date('2030-12-05T00:00:00Z');

/** When this store first announced it. */
export const LOOKUP_DEPRECATED_SINCE = new Date('2026-11-20T00:00:00Z');

/** A time in which lookups answer as after their removal, to rehearse it. */
export interface Brownout {
  /** As in the setting, such as `2030-11-05T09:00Z/PT15M`. */
  readonly text: string;
  readonly start: Date;
  readonly end: Date;
}

const BROWNOUT =
  /^(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))\/P(?=T?\d)(?:(\d{1,3})W)?(?:(\d{1,3})D)?(?:T(?=\d)(?:(\d{1,3})H)?(?:(\d{1,4})M)?(?:(\d{1,5})S)?)?$/;

/** Parses a start and a duration of weeks to seconds (ISO 8601). Returns undefined if it has another form. */
export function parseBrownout(text: string): Brownout | undefined {
  const [, from = '', weeks = 0, days = 0, hours = 0, minutes = 0, seconds = 0] = BROWNOUT.exec(text) ?? [];
  const start = new Date(from);
  // `Date` takes 30 February for 2 March.
  const isDay = new Date(`${from.slice(0, 10)}T00:00Z`).getUTCDate() === Number(from.slice(8, 10));
  const allHours = (Number(weeks) * 7 + Number(days)) * 24 + Number(hours);
  const end = new Date(start.getTime() + ((allHours * 60 + Number(minutes)) * 60 + Number(seconds)) * 1_000);
  return isDay && end > start ? { text, start, end } : undefined;
}

/** Returns the brownout that has begun, or comes next. */
export function findBrownout(brownouts: readonly Brownout[], now = Date.now()): Brownout | undefined {
  return brownouts.find(({ end }) => now < end.getTime());
}

/** Returns why a lookup is refused now. */
export function findLookupRefusal(brownouts: readonly Brownout[], now = Date.now()): string | undefined {
  const ends = brownouts.filter(({ start }) => start.getTime() <= now).map(({ end }) => end.getTime());
  const end = Math.max(...ends);
  if (end <= now) return undefined;
  return `Until ${new Date(end).toISOString()}, lookups by id answer as after their removal, as a rehearsal.`;
}

export function areLookupsRemoved(brownouts: readonly Brownout[], now = Date.now()): boolean {
  return now >= LOOKUP_SUNSET.getTime() || findLookupRefusal(brownouts, now) !== undefined;
}
