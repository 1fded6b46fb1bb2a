/** Returns the seconds until a time, rounded up and at least 0. */
export const secondsUntil = (time: number, now: number): number => Math.max(0, Math.ceil((time - now) / 1_000));

/** Formats a duration, such as `42 s`, `3 min` or `23 h`. */
export function formatSeconds(seconds: number): string {
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 6_000) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3_600)} h`;
}
