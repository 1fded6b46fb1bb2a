import { createServer } from 'node:net';

/**
 * The cheapest possible HTTP/1.1 server: keep-alive, pipelining, bodies with a length or in chunks. It shares a core with
 * the load generator, so it must not become the limit.
 * @param answer - `(method, path, body) => text` returns a whole response in latin1
 */
export function createRawServer(answer) {
  const server = createServer({ noDelay: true }, (socket) => {
    let pending = '';
    // In latin1 every character is one byte, so lengths are in bytes.
    socket.setEncoding('latin1');
    socket.on('error', () => socket.destroy());
    socket.on('data', (text) => {
      pending = pending === '' ? text : pending + text;
      let start = 0;
      let out = '';
      for (;;) {
        const end = pending.indexOf('\r\n\r\n', start);
        if (end === -1) break;
        const request = readBody(pending, start, end);
        if (request === undefined) break;
        const space = pending.indexOf(' ', start);
        const method = pending.slice(start, space);
        const path = pending.slice(space + 1, pending.indexOf(' ', space + 1));
        out += answer(method, path, request.body);
        start = request.next;
      }
      pending = start === pending.length ? '' : pending.slice(start);
      if (out !== '') socket.write(out, 'latin1');
    });
  });
  return server;
}

/** The body of the request whose head ends at `end`, and where the next request starts; undefined if it is incomplete. */
function readBody(text, start, end) {
  const first = end + 4;
  // Most requests are GETs, which have no body.
  if (text.startsWith('GET ', start)) return { body: '', next: first };
  const head = text.slice(start, end);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head);
  if (length !== null) {
    const next = first + Number(length[1]);
    return next > text.length ? undefined : { body: text.slice(first, next), next };
  }
  if (!/\r\ntransfer-encoding: *chunked/i.test(head)) return { body: '', next: first };
  let body = '';
  let at = first;
  for (;;) {
    const lineEnd = text.indexOf('\r\n', at);
    if (lineEnd === -1) return undefined;
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    const chunkEnd = lineEnd + 2 + size + 2;
    if (chunkEnd > text.length) return undefined;
    if (size === 0) return { body, next: chunkEnd };
    body += text.slice(lineEnd + 2, chunkEnd - 2);
    at = chunkEnd;
  }
}

/** A whole response. */
export function response(status, headers, body) {
  return `HTTP/1.1 ${status}\r\n${headers}Content-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}
