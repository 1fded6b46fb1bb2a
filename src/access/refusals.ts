import { StoreError } from '../errors.js';
import type { Admission, WindowState } from './ledger.js';

// In all of these, `retryAfter` is in seconds.

export function toRefusal(admission: Admission, cost: number): StoreError | undefined {
  switch (admission.outcome) {
    case 'admitted':
      return undefined;
    case 'refused':
      return rateLimited(admission.retryAfter, cost, admission.windows);
    case 'banned':
      return keyBanned(admission.retryAfter);
    case 'too-large':
      return operationTooLarge(cost, admission.limit);
  }
}

export function rateLimited(retryAfter: number, cost?: number, windows: readonly WindowState[] = []): StoreError {
  const full = windows.findLast(({ remaining }) => remaining < (cost ?? 1));
  const reason = full
    ? `This costs ${cost ?? 1}, but only ${full.remaining} of ${full.limit}${formatWindow(full)} are left.`
    : 'The rate limit is exceeded.';
  return new StoreError('rate_limited', `${reason} Retry in ${retryAfter} s.`, { retryAfter, cost });
}

function formatWindow({ name, seconds }: WindowState): string {
  if (name === 'minute' || name === 'day') return ` a ${name}`;
  return seconds === null ? '' : ` in ${seconds} s`;
}

export function keyBanned(retryAfter: number): StoreError {
  return new StoreError('key_banned', `The key is banned. Retry in ${retryAfter} s.`, { retryAfter });
}

/** @param limit - the smallest of the plan */
export function operationTooLarge(cost: number, limit: number): StoreError {
  const message = `The operation costs ${cost} requests, more than the ${limit} that the plan allows at once: split it.`;
  return new StoreError('operation_too_large', message, { cost });
}

export function keyMissing(): StoreError {
  return unauthorized('The request has no bearer key: send your API key as "Authorization: Bearer <API_KEY>".');
}

/** @param mistake - in the form of the key */
export function keyRefused(mistake = 'The API key is unknown, revoked or expired.'): StoreError {
  return unauthorized(mistake, ', error="invalid_token"');
}

export function keyReadOnly(): StoreError {
  return new StoreError('forbidden', 'The API key is read-only: it may not add animals.');
}

function unauthorized(message: string, parameters?: string): StoreError {
  return new StoreError('unauthorized', message, { headers: challenge(parameters) });
}

/** With the challenge of the 401 in whose place it is, so that a gateway can tell it from a limit of the key. */
export function addressLimited(retryAfter: number): StoreError {
  const message = `Too many requests without a valid key came from this address. Retry in ${retryAfter} s.`;
  return new StoreError('rate_limited', message, { retryAfter, headers: challenge() });
}

function challenge(parameters = '') {
  return { 'WWW-Authenticate': `Bearer realm="animal-store"${parameters}` };
}

/** The seconds between two times in milliseconds, at least 1. */
export function secondsUntil(time: number, now: number): number {
  return Math.max(1, Math.ceil((time - now) / 1_000));
}
