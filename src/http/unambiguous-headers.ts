import type { IncomingMessage } from 'node:http';
import { StoreError } from '../errors.js';

/** Node limits the total size of the headers, but thousands of short headers would fit. */
const MAX_HEADERS = 200;
/** Node takes the first of several, and a proxy in front may have checked the last. */
const SINGLE_HEADERS = ['host', 'authorization'];

/** Refuses a request whose headers could mean one thing here and another to a proxy in front. */
export function requireUnambiguousHeaders({ httpVersion, headers, rawHeaders }: IncomingMessage): void {
  if (rawHeaders.length > 2 * MAX_HEADERS)
    throw new StoreError('headers_too_large', `A request may have ${MAX_HEADERS} headers.`);
  // https://www.rfc-editor.org/rfc/rfc9112#section-3.2
  if (httpVersion === '1.1' && headers.host === undefined) throw ambiguous('An HTTP/1.1 request needs a Host header.');
  for (const name of SINGLE_HEADERS) {
    const isNamed = (text: string, index: number): boolean =>
      index % 2 === 0 && text.length === name.length && text.toLowerCase() === name;
    if (rawHeaders.filter(isNamed).length > 1) throw ambiguous(`A request may have one ${name} header.`);
  }
}

function ambiguous(message: string): StoreError {
  return new StoreError('invalid_request', message, { headers: { Connection: 'close' } });
}
