import { STATUS_CODES } from 'node:http';
import type { WindowState } from '../access/ledger.js';
import { monotonicNow, toUnixSeconds } from '../clock.js';
import { toErrorBody, type ErrorName, type StoreError } from '../errors.js';
import { accepts } from './media-type.js';
import type { RequestContext, Reply } from './request-context.js';

/** The media type of problem details: https://www.rfc-editor.org/rfc/rfc9457 */
export const PROBLEM_TYPE = 'application/problem+json';

/** The problem types of the RateLimit draft. Every other problem is what its status says. */
const PROBLEMS: Partial<Record<ErrorName, readonly [name: string, title: string]>> = {
  rate_limited: ['quota-exceeded', 'Quota Exceeded'],
  key_banned: ['abnormal-usage-detected', 'Abnormal Usage Detected'],
  overloaded: ['temporary-reduced-capacity', 'Temporary Reduced Capacity'],
};
const REGISTRY = 'https://iana.org/assignments/http-problem-types#';

/** Returns the REST interface's reply to an error: the Error body, or problem details if the client asks for them. */
export function toErrorReply(context: RequestContext, error: StoreError, windows?: readonly WindowState[]): Reply {
  const { status, headers } = error;
  const accept = context.header('accept');
  const isProblem = accept?.toLowerCase().includes(PROBLEM_TYPE) && accepts(accept, PROBLEM_TYPE);
  return {
    status,
    headers: {
      'Content-Type': isProblem ? PROBLEM_TYPE : 'application/json; charset=utf-8',
      Vary: 'Accept',
      ...headers,
    },
    body: JSON.stringify(isProblem ? toProblem(error, windows) : toErrorBody(error)),
    windows,
  };
}

function toProblem(error: StoreError, windows: readonly WindowState[] = []): Record<string, unknown> {
  const { code, message, status } = toErrorBody(error);
  const [name, title = STATUS_CODES[status]] = PROBLEMS[error.code] ?? [];
  const violated = windows.filter(({ remaining }) => remaining < (error.cost ?? 1)).map((window) => window.name);
  return {
    type: name === undefined ? 'about:blank' : REGISTRY + name,
    title,
    status,
    detail: message,
    code,
    ...(error.code === 'rate_limited' && { 'violated-policies': violated }),
  };
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
    policies += `${separator}"${name}";q=${limit}${seconds === null ? '' : `;w=${seconds}`}`;
    states += `${separator}"${name}";r=${remaining};t=${Math.max(0, Math.ceil((resetAt - now) / 1_000))}`;
  }
  headers.push('X-RateLimit-Limit', String(tightest.limit), 'X-RateLimit-Remaining', String(tightest.remaining));
  headers.push('X-RateLimit-Reset', String(toUnixSeconds(tightest.resetAt)));
  headers.push('RateLimit-Policy', policies, 'RateLimit', states);
}
