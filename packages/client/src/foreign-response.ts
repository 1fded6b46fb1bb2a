import { toStoreErrors, type StoreError, type UnrecognizedError } from './errors.js';

/** Describes a response that is not GraphQL: it comes from something in front of the store, such as a load balancer. */
export function readForeignResponse(status: number, headers: Headers): StoreError | UnrecognizedError {
  // Browsers hide the status of a redirect.
  const message = `The endpoint returned ${status ? `HTTP status ${status}` : 'a redirect'} without a GraphQL result.`;
  const code = status === 429 ? 'RATE_LIMITED' : [502, 503, 504].includes(status) ? 'SERVICE_UNAVAILABLE' : undefined;
  // Seconds, or a date (https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3). `Date.parse` accepts more than dates.
  const value = headers.get('retry-after') ?? '';
  const now = Date.parse(headers.get('date') ?? '') || Date.now();
  const untilDate = value.endsWith('GMT') ? Math.ceil((Date.parse(value) - now) / 1_000) : undefined;
  const retryAfter = /^\d+$/.test(value) ? Number(value) : untilDate;
  return toStoreErrors([{ message, extensions: { code, retryAfter } }])[0] as StoreError | UnrecognizedError;
}
