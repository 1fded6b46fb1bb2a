import { parseRetryAfter, parseWait } from '../access/limit-fields.js';
import { monotonicNow } from '../clock.js';
import { StoreError, type ErrorName } from '../errors.js';
import type { UpstreamAnswer, UpstreamFailure } from './upstream-answer.js';
import { parseErrorBody } from './wire.js';

/** The upstream could not be reached, or the breaker is open. */
export function unavailable(cause?: unknown): StoreError {
  const message = 'The animal store behind this gateway cannot be reached. Try again shortly.';
  return new StoreError('upstream_unavailable', message, { cause });
}

/** The call's time limit has passed. */
export function timedOut(): StoreError {
  return new StoreError('upstream_timeout', 'The animal store behind this gateway did not answer in time.');
}

/** The interface does not allow the upstream's response. The message does not quote it. */
export function notUnderstood(what: string, cause?: unknown): StoreError {
  const message = `The animal store behind this gateway gave an answer that its interface does not allow (${what}).`;
  return new StoreError('upstream_error', message, { cause });
}

/** Converts a missing response to an error for the client. */
export function fromFailure(failure: UpstreamFailure): StoreError {
  switch (failure.kind) {
    case 'unreachable':
      return unavailable(failure);
    case 'broken':
      return notUnderstood('incomplete or no HTTP', failure);
    case 'mismatched':
      return notUnderstood('the answer to another request', failure);
  }
}

/** Converts a response that is not a success to an error, by its HTTP status and with its Error body unchanged. */
export function fromAnswer(answer: UpstreamAnswer): StoreError {
  const { status, body } = answer;
  const error = body === undefined ? undefined : parseErrorBody(body);
  const now = monotonicNow();
  const retryAfter = parseRetryAfter(answer, now);
  const details = { body: error, ...(retryAfter !== undefined && { retryAfter }) };
  const message = error?.message;
  switch (status) {
    case 401:
      return new StoreError('unauthorized', message ?? 'The API key is unknown, revoked or expired.', {
        ...details,
        graphqlOnly: !error,
        headers: { 'WWW-Authenticate': 'Bearer realm="animal-store", error="invalid_token"' },
      });
    case 429:
      return new StoreError(
        error?.code === 'key_banned' ? 'key_banned' : 'rate_limited',
        message ?? 'The rate limit is exceeded.',
        { ...details, retryAfter: parseWait(answer, now), graphqlOnly: !error },
      );
    default:
      if (!error || status < 400) return notUnderstood(status < 400 ? 'an unexpected status' : 'no Error body');
      return new StoreError(NAMES[status] ?? 'upstream_error', error.message, details);
  }
}

const NAMES: Readonly<Record<number, ErrorName>> = { 400: 'invalid_request', 404: 'not_found', 422: 'invalid_request' };
