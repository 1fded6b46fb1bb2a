import { StoreError } from '../errors.js';

/** Over the limit; `retryAfter` in seconds, `cost` of the operation if one was refused. */
export function rateLimited(retryAfter: number, cost?: number): StoreError {
  return new StoreError('rate_limited', `The rate limit is exceeded: retry in ${retryAfter} s.`, {
    retryAfter,
    ...(cost !== undefined && { cost }),
  });
}

/** Banned; `retryAfter` in seconds. */
export function keyBanned(retryAfter: number): StoreError {
  return new StoreError('key_banned', `The key is banned for a while: retry in ${retryAfter} s.`, { retryAfter });
}

/** More than the smallest window can ever hold. */
export function operationTooLarge(cost: number, limit: number): StoreError {
  return new StoreError(
    'operation_too_large',
    `The operation costs ${cost} requests, more than the ${limit} that a window of the plan holds: split it.`,
    { cost },
  );
}

/** No key was sent. */
export function keyMissing(): StoreError {
  return new StoreError('unauthorized', 'An API key is required: send it as "Authorization: Bearer <API_KEY>".', {
    headers: { 'WWW-Authenticate': 'Bearer realm="animal-store"' },
  });
}

/** A key was sent and is not valid. */
export function keyRefused(): StoreError {
  return new StoreError('unauthorized', 'The API key is unknown, revoked or expired.', {
    headers: { 'WWW-Authenticate': 'Bearer realm="animal-store", error="invalid_token"' },
  });
}

/** Too many answers of 401 went to the client's address; `retryAfter` in seconds. */
export function addressLimited(retryAfter: number): StoreError {
  return new StoreError('rate_limited', 'Too many requests without a valid key came from this address.', {
    retryAfter,
  });
}

/** Whole seconds from `now` until `time`, both in milliseconds: at least one, and never too few. */
export function secondsUntil(time: number, now: number): number {
  return Math.max(1, Math.ceil((time - now) / 1_000));
}
