import { StoreError } from '../errors.js';

/**
 * The key is over its limit.
 * @param retryAfter - in seconds
 * @param cost - the cost of the refused operation, if there is one
 */
export function rateLimited(retryAfter: number, cost?: number): StoreError {
  return new StoreError('rate_limited', `The rate limit is exceeded: retry in ${retryAfter} s.`, {
    retryAfter,
    ...(cost !== undefined && { cost }),
  });
}

/**
 * The key is banned.
 * @param retryAfter - in seconds
 */
export function keyBanned(retryAfter: number): StoreError {
  return new StoreError('key_banned', `The key is banned for a while: retry in ${retryAfter} s.`, { retryAfter });
}

/** The operation costs more than the limit of the smallest window. */
export function operationTooLarge(cost: number, limit: number): StoreError {
  return new StoreError(
    'operation_too_large',
    `The operation costs ${cost} requests, more than the ${limit} that a window of the plan holds: split it.`,
    { cost },
  );
}

/** The request has no key. */
export function keyMissing(): StoreError {
  return new StoreError('unauthorized', 'An API key is required: send it as "Authorization: Bearer <API_KEY>".', {
    headers: { 'WWW-Authenticate': 'Bearer realm="animal-store"' },
  });
}

/** The request has a key that is not valid. */
export function keyRefused(): StoreError {
  return new StoreError('unauthorized', 'The API key is unknown, revoked or expired.', {
    headers: { 'WWW-Authenticate': 'Bearer realm="animal-store", error="invalid_token"' },
  });
}

/**
 * The client's address has received too many 401 responses.
 * @param retryAfter - in seconds
 */
export function addressLimited(retryAfter: number): StoreError {
  return new StoreError('rate_limited', 'Too many requests without a valid key came from this address.', {
    retryAfter,
  });
}

/** Returns the seconds from `now` until `time`, both in milliseconds. The result is rounded up and at least 1. */
export function secondsUntil(time: number, now: number): number {
  return Math.max(1, Math.ceil((time - now) / 1_000));
}
