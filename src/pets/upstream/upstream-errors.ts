import { StoreError, type ErrorName } from '../../errors.js';
import { parseRetryAfter, parseWait } from '../../access/limit-fields.js';
import { UpstreamFailure, type UpstreamAnswer } from './outgoing-request.js';
import { parseErrorBody } from './wire.js';

/** The store could not be reached, or the breaker says that it cannot be. */
export function unavailable(cause?: unknown): StoreError {
  return new StoreError(
    'upstream_unavailable',
    'The animal store behind this gateway cannot be reached. Try again shortly.',
    {
      cause,
    },
  );
}

/** The time for the operation is over. */
export function timedOut(): StoreError {
  return new StoreError('upstream_timeout', 'The animal store behind this gateway did not answer in time.');
}

/** The store answered what its interface does not allow. Nothing of it is quoted. */
export function notUnderstood(what: string, cause?: unknown): StoreError {
  return new StoreError(
    'upstream_error',
    `The animal store behind this gateway gave an answer that its interface does not allow (${what}).`,
    {
      cause,
    },
  );
}

/** Why no answer came, in the terms of this program. */
export function fromFailure(failure: Error): Error {
  if (!(failure instanceof UpstreamFailure)) return failure;
  return failure.kind === 'unreachable' ? unavailable(failure) : notUnderstood('incomplete or no HTTP', failure);
}

/** The one place where an answer that is no success becomes an error: by its HTTP status, with the Error body as it came. */
export function fromAnswer(answer: UpstreamAnswer): StoreError {
  const { status, body } = answer;
  const error = body === undefined ? undefined : parseErrorBody(body);
  const now = Date.now();
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
