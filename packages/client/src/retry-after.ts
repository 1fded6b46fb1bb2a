/**
 * Reads the `Retry-After` header: seconds, or an HTTP date (https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3).
 * @returns seconds, or undefined if the header is missing or invalid
 */
export function parseRetryAfter(headers: Headers): number | undefined {
  const value = headers.get('retry-after') ?? '';
  if (/^\d+$/.test(value)) return Number(value);
  // The clocks of server and client differ, so a date counts from the server's own time if the response states it.
  const sentAt = Date.parse(headers.get('date') ?? '') || Date.now();
  const seconds = Math.ceil((Date.parse(value) - sentAt) / 1_000);
  return seconds > 0 ? seconds : undefined;
}
