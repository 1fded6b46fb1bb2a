import type { StoreError, UnrecognizedError } from './errors.js';

/** Describes a response that is not GraphQL: it comes from something in front of the store, such as a load balancer. */
export function readForeignResponse(status: number, headers: Headers): StoreError | UnrecognizedError {
  const message = `The endpoint returned HTTP status ${status} without a GraphQL result.`;
  const value = headers.get('retry-after') ?? '';
  // Seconds, or an HTTP date (https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3).
  const seconds = /^\d+$/.test(value) ? Number(value) : Math.ceil((Date.parse(value) - Date.now()) / 1_000);
  const wait = seconds >= 0 ? { retryAfter: seconds } : {};
  if (status === 429) return { code: 'RATE_LIMITED', message, requestId: '', retryAfter: 1, ...wait };
  if (status < 502 || status > 504) return { code: 'UNRECOGNIZED', message };
  return { code: 'SERVICE_UNAVAILABLE', message, requestId: '', ...wait };
}
