import { ANIMAL_COUNT, ANIMALS, list } from '../animals.mjs';
import { createRawServer, response } from './raw-http.mjs';

/**
 * The animal store behind the gateways of proxy mode. It serves the REST interface from memory, with the headers of a key
 * whose limits are never reached. Every key is valid.
 */
const toJson = ({ id, name, categoryId, status }) =>
  `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${status === null ? '' : `,"status":"${status}"`}}`;
const ONE = ANIMALS.map(toJson);
const lists = new Map();

const DEPRECATION =
  'Deprecation: @1735689600\r\nSunset: Thu, 05 Dec 2030 00:00:00 GMT\r\nLink: </v1/pets>; rel="successor-version"\r\n';

let limits = '';
function stateLimits() {
  const reset = Math.floor(Date.now() / 1_000) + 60;
  limits =
    `Date: ${new Date().toUTCString()}\r\nX-RateLimit-Limit: 2000000000\r\nX-RateLimit-Remaining: 1999999999\r\nX-RateLimit-Reset: ${reset}\r\n` +
    'RateLimit-Policy: "minute";q=2000000000;w=60, "day";q=2000000000;w=86400\r\n' +
    'RateLimit: "minute";r=1999999999;t=60, "day";r=1999999999;t=86400\r\n';
}
stateLimits();
setInterval(stateLimits, 1_000);

let added = 0;

function listed(query) {
  let body = lists.get(query);
  if (body === undefined) {
    const parameters = new URLSearchParams(query);
    const animals = list(Number(parameters.get('limit') ?? 20), parameters.get('status') ?? undefined);
    body = `[${animals.map(toJson).join(',')}]`;
    lists.set(query, body);
  }
  return body;
}

function answer(method, path, body) {
  if (method === 'POST' && path === '/v1/pets') {
    added += 1;
    const id = ANIMAL_COUNT + added;
    const { name, categoryId, status } = JSON.parse(body);
    return response(
      '201 Created',
      `${limits}Location: /v1/pets/${id}\r\n`,
      toJson({ id, name, categoryId, status: status ?? null }),
    );
  }
  if (path.startsWith('/v1/pets/')) {
    const one = ONE[Number(path.slice(9)) - 1];
    if (one !== undefined) return response('200 OK', limits + DEPRECATION, one);
    return response('404 Not Found', limits, '{"code":"not_found","message":"There is no such animal.","status":404}');
  }
  if (path.startsWith('/v1/pets')) return response('200 OK', limits, listed(path.slice(9)));
  // For the harness: whether every addition that was answered arrived here.
  if (path === '/added') return response('200 OK', '', String(added));
  return response('404 Not Found', limits, '{"code":"not_found","message":"There is no such path.","status":404}');
}

createRawServer(answer).listen(Number(process.env.PORT), '127.0.0.1');
