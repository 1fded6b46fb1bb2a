import { createServer } from 'node:net';
import { ANIMAL_COUNT, ANIMALS, list } from '../animals.mjs';

/**
 * The animal store behind the gateways of proxy mode. It serves the REST interface from memory, with the headers of a
 * key whose limits are never reached, and with the id of the request. Keys that begin with `bench-key-` are valid. It
 * shares a core with the load generator, so it speaks the least of HTTP/1.1 that gateways need: keep-alive, pipelining,
 * and bodies with a length.
 */
const toJson = ({ id, name, categoryId, status }) =>
  `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${status === null ? '' : `,"status":"${status}"`}}`;
const ONE = ANIMALS.map(toJson);
const lists = new Map();
let added = 0;

const DEPRECATION =
  'Deprecation: @1735689600\r\nSunset: Thu, 05 Dec 2030 00:00:00 GMT\r\nLink: </v1/pets>; rel="successor-version"\r\n';
let limits;
function stateLimits() {
  const reset = Math.floor(Date.now() / 1_000) + 60;
  limits =
    `Date: ${new Date().toUTCString()}\r\nX-RateLimit-Limit: 2000000000\r\nX-RateLimit-Remaining: 1999999999\r\nX-RateLimit-Reset: ${reset}\r\n` +
    'RateLimit-Policy: "minute";q=2000000000;w=60, "day";q=2000000000;w=86400\r\n' +
    'RateLimit: "minute";r=1999999999;t=60, "day";r=1999999999;t=86400\r\n';
}
stateLimits();
setInterval(stateLimits, 1_000);

const response = (status, headers, body) =>
  `HTTP/1.1 ${status}\r\n${limits}${headers}Content-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

const UNAUTHORIZED = response(
  '401 Unauthorized',
  '',
  '{"code":"unauthorized","message":"The key is not valid.","status":401}',
);

function toList(path) {
  if (!lists.has(path)) {
    const { limit = 20, status } = Object.fromEntries(new URL(path, 'http://host').searchParams);
    lists.set(path, `[${list(Number(limit), status).map(toJson).join(',')}]`);
  }
  return lists.get(path);
}

function respond(method, path, body) {
  if (method === 'POST' && path === '/v1/pets') {
    added += 1;
    const id = ANIMAL_COUNT + added;
    return response('201 Created', `Location: /v1/pets/${id}\r\n`, toJson({ status: null, ...JSON.parse(body), id }));
  }
  const one = path.startsWith('/v1/pets/') ? ONE[Number(path.slice(9)) - 1] : undefined;
  if (one !== undefined) return response('200 OK', DEPRECATION, one);
  if (/^\/v1\/pets(\?|$)/.test(path)) return response('200 OK', '', toList(path));
  // For the harness: whether every addition that was answered arrived here.
  if (path === '/added') return response('200 OK', '', String(added));
  return response('404 Not Found', '', '{"code":"not_found","message":"There is no such animal.","status":404}');
}

createServer({ noDelay: true }, (socket) => {
  let pending = '';
  // In latin1 every character is one byte, so lengths are in bytes.
  socket.setEncoding('latin1');
  socket.on('error', () => socket.destroy());
  socket.on('data', (text) => {
    pending += text;
    let start = 0;
    let out = '';
    for (;;) {
      const end = pending.indexOf('\r\n\r\n', start);
      if (end === -1) break;
      const [method, path] = pending.slice(start, pending.indexOf('\r\n', start)).split(' ');
      const head = pending.slice(start, end);
      const length = method === 'GET' ? 0 : /\r\ncontent-length: *(\d+)/i.exec(head)[1];
      const next = end + 4 + Number(length);
      if (next > pending.length) break;
      // As the real store does; a request without an id gets none.
      const [, id] = /\r\nx-request-id: *(\S+)/i.exec(head) ?? [];
      const isValid = /\r\nauthorization: *Bearer bench-key-/i.test(head) || path === '/added';
      const text = isValid ? respond(method, path, pending.slice(end + 4, next)) : UNAUTHORIZED;
      out += id === undefined ? text : text.replace('\r\n', `\r\nX-Request-Id: ${id}\r\n`);
      start = next;
    }
    pending = pending.slice(start);
    if (out !== '') socket.write(out, 'latin1');
  });
}).listen(Number(process.env.PORT), '127.0.0.1');
