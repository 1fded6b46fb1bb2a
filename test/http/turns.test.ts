import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { expect, it, vi } from 'vitest';
import { StoreError } from '../../src/errors.js';
import { createCors } from '../../src/http/cors.js';
import { toErrorReply } from '../../src/http/reply.js';
import { HttpRequest } from '../../src/http/request.js';
import { createRoutes, type RoutesOptions } from '../../src/routes.js';

const page = { name: 'page', handle: () => ({ status: 200, headers: {}, body: '' }) };
const route = { ...page, methods: ['GET'], requiresKey: () => true };

/** Creates a request without a connection. */
function createRequest(method: string, url: string, headers: Record<string, string> = {}): HttpRequest {
  const message = Object.assign(new IncomingMessage(new Socket()), { method, url, httpVersion: '1.1', complete: true });
  Object.assign(message.headers, { host: 'x', ...headers });
  return new HttpRequest(message, new ServerResponse(message), { address: '::1', network: '::1' });
}

function disconnect({ response }: HttpRequest): void {
  response.destroy();
  response.emit('close');
}

/** Answers one request, and returns the status and whose turn it was. */
async function answer(request: HttpRequest, open?: () => never): Promise<unknown[]> {
  const takeTurn = vi.fn<RoutesOptions['takeTurn']>((_, task) => task());
  const refuse = (): never => {
    throw new TypeError('the key is refused');
  };
  const session = {
    keyId: undefined,
    isKeyRefused: true,
    requireKey: refuse,
    admit: refuse,
    explain: (error: StoreError) => error,
    allowance: () => undefined,
  };
  const routes = createRoutes({
    access: { open: open ?? (() => session) },
    cors: createCors(undefined),
    apis: [{ root: '/v1', findRoute: (path) => (path === '/v1/pets' ? route : undefined), toErrorReply }],
    pages: [
      ({ path }) => (path === '/page' ? page : undefined),
      ({ path }) => (path === '/probe' ? { ...page, isProbe: true } : undefined),
    ],
    maxBodyBytes: 1,
    takeTurn,
  });
  const { reply } = await routes(request);
  return [reply.status, ...takeTurn.mock.calls.map(([caller]) => caller)];
}

const PREFLIGHT = { origin: 'http://localhost:1', 'access-control-request-method': 'GET' };

it.each([
  ['GET', '/nowhere', {}, 404],
  ['POST', '/page', {}, 405],
  ['GET', '/page', {}, 200],
  ['OPTIONS', '/page', PREFLIGHT, 204],
  ['GET', '/v1/nowhere', {}, 404],
  ['POST', '/v1/pets', {}, 405],
  ['OPTIONS', '/v1/pets', PREFLIGHT, 204],
  ['GET', '/v1/pets', {}, 500],
])('%s %s takes a turn, whatever becomes of it (%o: %i)', async (method, url, headers, status) => {
  expect(await answer(createRequest(method, url, headers))).toEqual([status, '::1']);
});

it('a preflight is answered, in its turn, while there is no session because the store starts', async () => {
  const starting = (): never => {
    throw new StoreError('unavailable', 'The store is starting.');
  };
  for (const path of ['/v1/pets', '/v1/nowhere'])
    expect(await answer(createRequest('OPTIONS', path, PREFLIGHT), starting)).toEqual([204, '::1']);
  const long = `/v1/pets?${'x'.repeat(20_000)}`;
  expect(await answer(createRequest('OPTIONS', long, PREFLIGHT), starting)).toEqual([414, '::1']);
  expect(await answer(createRequest('GET', '/v1/pets'), starting)).toEqual([503, '::1']);
});

it('probes of an address wait only for each other', async () => {
  expect(await answer(createRequest('GET', '/probe'))).toEqual([200, 'probes of ::1']);
});

it('a refusal whose client has left takes no turn', async () => {
  const request = createRequest('POST', '/v1/pets');
  disconnect(request);
  expect(await answer(request)).toEqual([405]);
});
