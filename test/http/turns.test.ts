import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { expect, it, vi } from 'vitest';
import { createCors } from '../../src/http/cors.js';
import { toErrorReply } from '../../src/http/reply.js';
import { HttpRequest } from '../../src/http/request.js';
import { createRoutes, type RoutesOptions } from '../../src/routes.js';

const page = { name: 'page', handle: () => ({ status: 200, headers: {}, body: '' }) };
const route = { ...page, methods: ['GET'], requiresKey: () => true };

/** Answers one request, and returns the status and whose turn it was. */
async function answer(method: string, url: string, headers: Record<string, string> = {}): Promise<unknown[]> {
  const takeTurn = vi.fn<RoutesOptions['takeTurn']>((_, task) => task());
  const refuse = (): never => {
    throw new TypeError('the key is refused');
  };
  const session = {
    keyId: undefined,
    isKeyRefused: true,
    requireKey: refuse,
    admit: refuse,
    allowance: () => undefined,
  };
  const routes = createRoutes({
    access: { open: () => session },
    cors: createCors(undefined),
    apis: [{ root: '/v1', findRoute: (path) => (path === '/v1/pets' ? route : undefined), toErrorReply }],
    pages: [
      ({ path }) => (path === '/page' ? page : undefined),
      ({ path }) => (path === '/probe' ? { ...page, isProbe: true } : undefined),
    ],
    maxBodyBytes: 1,
    takeTurn,
  });
  const message = Object.assign(new IncomingMessage(new Socket()), { method, url, httpVersion: '1.1' });
  Object.assign(message.headers, { host: 'x', ...headers });
  const client = { address: '::1', network: '::1' };
  const { reply } = await routes(new HttpRequest(message, new ServerResponse(message), client));
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
  expect(await answer(method, url, headers)).toEqual([status, '::1']);
});

it('probes of an address wait only for each other', async () => {
  expect(await answer('GET', '/probe')).toEqual([200, 'probes of ::1']);
});
