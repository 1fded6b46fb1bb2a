import type { UpstreamAnswerHead } from './upstream-key.js';

/** A window as an answer of another store states it. */
export interface StatedWindow {
  readonly name: string;
  /** Length in seconds; null when the answer does not say. */
  readonly seconds: number | null;
  readonly limit: number;
  readonly remaining: number;
  /** When it closes, in milliseconds since the epoch, by our clock. */
  readonly resetAt: number;
}

/**
 * Reads the limits that an answer states: `RateLimit-Policy` and `RateLimit`
 * (https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/), else the `X-RateLimit-*` trio.
 * @returns the windows, the shorter first; empty when the answer states none
 */
export function parseStatedWindows(
  { header }: Pick<UpstreamAnswerHead, 'header'>,
  now: number,
): readonly StatedWindow[] {
  const policies = parseItems(header('ratelimit-policy'));
  const states = new Map(parseItems(header('ratelimit')).map((item) => [item.name, item.parameters]));
  const windows = policies.flatMap(({ name, parameters: { q, w } }) => {
    const { r, t } = states.get(name) ?? {};
    if (q === undefined || r === undefined || t === undefined) return [];
    return [{ name, seconds: w ?? null, limit: q, remaining: r, resetAt: now + t * 1_000 }];
  });
  if (windows.length === 0) return parseTrio(header, now);
  return windows.sort((a, b) => (a.seconds ?? Infinity) - (b.seconds ?? Infinity));
}

function parseTrio(header: UpstreamAnswerHead['header'], now: number): readonly StatedWindow[] {
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((part) =>
    toCount(header(`x-ratelimit-${part}`)),
  );
  if (limit === undefined || remaining === undefined || reset === undefined) return [];
  // By the upstream's own clock, where it tells: ours may differ.
  const date = Date.parse(header('date') ?? '');
  const wait = reset * 1_000 - (Number.isNaN(date) ? now : date);
  return [{ name: 'default', seconds: null, limit, remaining, resetAt: now + Math.max(0, wait) }];
}

/**
 * The wait that a `Retry-After` header asks for, in seconds; undefined when it has none.
 * https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3: a number of seconds or an HTTP date
 */
export function parseRetryAfter(value: string | undefined, now: number): number | undefined {
  const seconds = toCount(value);
  if (seconds !== undefined) return seconds;
  const date = Date.parse(value ?? '');
  return Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((date - now) / 1_000));
}

function toCount(text: string | undefined): number | undefined {
  return text !== undefined && /^\s*\d{1,15}\s*$/.test(text) ? Number(text) : undefined;
}

interface Item {
  readonly name: string;
  readonly parameters: Readonly<Record<string, number | undefined>>;
}

/** Reads a list such as `"minute";q=60;w=60, "day";q=1000;w=86400`, keeping the numeric parameters. */
function parseItems(field: string | undefined): readonly Item[] {
  return (field ?? '').split(',').flatMap((item) => {
    const [quoted = '', ...parameters] = item.split(';').map((part) => part.trim());
    const name = /^"([^"]*)"$/.exec(quoted)?.[1];
    if (name === undefined) return [];
    return [{ name, parameters: Object.fromEntries(parameters.map(parseParameter)) }];
  });
}

function parseParameter(text: string): [name: string, value: number | undefined] {
  const [name = '', value] = text.split('=');
  return [name, toCount(value)];
}
