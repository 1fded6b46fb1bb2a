import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { StoreError } from '../errors.js';

/**
 * Reads a request body as text.
 * @param limit - the most bytes to take; the rest of a larger body is thrown away
 * @throws StoreError `payload_too_large`; `bad_request` when the body is not UTF-8 or ends early
 */
export async function readBody(request: IncomingMessage, limit: number): Promise<string> {
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge(request, limit);
  const bytes = await collect(request, limit);
  if (!isUtf8(bytes))
    throw new StoreError('bad_request', 'The request body must be JSON in UTF-8; these bytes are not UTF-8.');
  return bytes.toString('utf8');
}

function collect(request: IncomingMessage, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= limit) chunks.push(chunk);
      else {
        request.removeAllListeners('data');
        reject(tooLarge(request, limit));
      }
    });
    request.once('end', () => {
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
    });
    request.once('error', reject);
    request.once('aborted', () => {
      reject(new StoreError('bad_request', 'The request body ended early.'));
    });
  });
}

function tooLarge(request: IncomingMessage, limit: number): StoreError {
  // A client that is still sending when the connection closes would never read why.
  request.resume();
  return new StoreError('payload_too_large', `The request body is larger than ${limit} bytes.`);
}
