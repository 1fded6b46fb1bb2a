/** A window of the key's plan. `resetAt`, when all requests are available again, is in milliseconds since the epoch. */
export interface LimitWindow {
  /** `minute` or `day`; a store behind a gateway may use other names. */
  readonly name: string;
  readonly limit: number;
  readonly remaining: number;
  readonly resetAt: number;
}

/** Two reset times that differ by less belong to the same window: both are rounded and arrive with some delay. */
export const SAME_WINDOW_MS = 2_500;
/** A window that states more is ignored: it could stop the client for as long as the program runs. */
const LONGEST_WINDOW_S = 86_400;

/**
 * Reads `RateLimit-Policy` and `RateLimit` (https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/).
 * @returns what is known if the response states nothing
 */
export function updateWindows(known: readonly LimitWindow[], headers: Headers): readonly LimitWindow[] {
  const policies = read(headers, 'ratelimit-policy');
  const now = Date.now();
  const windows = [...read(headers, 'ratelimit')].flatMap(([name, state]) => {
    const limit = find('q', policies.get(name)) ?? Infinity;
    const remaining = find('r', state);
    const t = find('t', state) ?? Infinity;
    if (limit === 0 || remaining === undefined || t > LONGEST_WINDOW_S) return [];
    const resetAt = now + t * 1_000;
    const before = known.find((one) => one.name === name && one.resetAt > now);
    const isSame = before?.limit === limit && Math.abs(before.resetAt - resetAt) <= SAME_WINDOW_MS;
    // Responses may arrive in any order. Within a window of one plan, `remaining` only falls: the lower number is newer.
    return isSame && before.remaining < remaining ? before : { name, limit, remaining, resetAt };
  });
  return windows.length > 0 ? windows : known;
}

/** An item such as `"minute";r=57;t=42`: https://www.rfc-editor.org/rfc/rfc9651 */
const ITEM = /"((?:[^"\\]|\\.)*)"((?:; *[a-z]+=\d+)*)/g;

/** Reads the parameters of each item, by name. A plan has few windows, so the start of a header is enough. */
function read(headers: Headers, header: string): Map<string, string | undefined> {
  const items = [...(headers.get(header) ?? '').slice(0, 1_000).matchAll(ITEM)];
  return new Map(items.map(([, name = '', parameters]) => [name.replace(/\\(.)/g, '$1'), parameters]));
}

function find(parameter: string, parameters = ''): number | undefined {
  const [, digits] = new RegExp(`; *${parameter}=(\\d+)`).exec(parameters) ?? [];
  return digits === undefined ? undefined : Number(digits);
}
