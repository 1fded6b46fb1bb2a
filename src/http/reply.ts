import type { WindowState } from '../access/ledger.js';
import { monotonicNow, toUnixSeconds } from '../clock.js';
import { toErrorBody, type StoreError } from '../errors.js';

/** What a handler answers. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  /** What the log line of the request says further. */
  readonly logged?: LoggedFields;
  readonly failures?: readonly StoreError[];
  /** What the handler knows of its own work, in milliseconds of the event loop. */
  readonly busyMs?: number;
}

/** The fields of a log line that only some requests have. No field ever contains a key. */
export interface LoggedFields {
  /** Requests charged. */
  readonly cost?: number;
  /** The names of the operations. An operation without a name is listed by its type. */
  readonly operations?: string;
  readonly deprecated?: boolean;
  readonly untrusted?: string;
  /** The client's name, if the request used something deprecated or not trusted. */
  readonly client?: string;
}

/** A reply with what the server adds to it and logs. */
export interface RoutedReply {
  readonly reply: Reply;
  /** For metrics and the log. Never the client's path, because that could have any value. */
  readonly route: string;
  /** For the limit headers. Undefined if nothing is counted or the limits are unknown. */
  readonly windows?: readonly WindowState[];
  readonly keyId?: string;
}

/** The media type of JSON bodies. GraphQL negotiates its own. */
export const JSON_TYPE = 'application/json; charset=utf-8';

/** @param body - JSON text */
export function jsonReply(status: number, body: string, headers: Reply['headers'] = {}): Reply {
  return { status, headers: { 'Content-Type': JSON_TYPE, ...headers }, body };
}

/** Returns the reply to an error with the Error body of the interface document. */
export function toErrorReply(error: StoreError): Reply {
  return { ...jsonReply(error.status, JSON.stringify(toErrorBody(error)), error.headers), failures: [error] };
}

/**
 * Adds the limit headers to those of a response. The `X-RateLimit-*` headers describe the window with the fewest
 * requests left; `RateLimit` and `RateLimit-Policy` describe every window.
 * See https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/
 * @param headers - names and values alternately
 * @param windows - the shorter window first; empty if the limits are unknown
 */
export function addLimitHeaders(headers: string[], windows: readonly WindowState[], now = monotonicNow()): void {
  let [tightest] = windows;
  if (!tightest) return;
  let policies = '';
  let states = '';
  for (const window of windows) {
    const { name, seconds, limit, remaining, resetAt } = window;
    if (remaining < tightest.remaining) tightest = window;
    const separator = policies === '' ? '' : ', ';
    const quoted = `"${name.replace(/["\\]/g, '\\$&')}"`;
    policies += `${separator}${quoted};q=${limit}${seconds === null ? '' : `;w=${seconds}`}`;
    // Another server's clock may be ahead, but no reset is further away than its window is long.
    const left = Math.min(seconds ?? Infinity, Math.max(0, Math.ceil((resetAt - now) / 1_000)));
    states += `${separator}${quoted};r=${remaining};t=${left}`;
  }
  headers.push('X-RateLimit-Limit', String(tightest.limit), 'X-RateLimit-Remaining', String(tightest.remaining));
  headers.push('X-RateLimit-Reset', String(toUnixSeconds(tightest.resetAt)));
  headers.push('RateLimit-Policy', policies, 'RateLimit', states);
}
