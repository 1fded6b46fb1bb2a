import { execFile } from 'node:child_process';
import { getEventListeners } from 'node:events';
import { createServer as createHttpServer, request, type RequestListener } from 'node:http';
import { connect as connectTo, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createPetClient, isPetError, type PetError, type PetClient, type PetClientOptions } from '../src/index.js';
import { startProxyBefore, type ProxyOnly } from '../../../test/support/gateway.js';
import { findFreePort } from '../../../test/support/process.js';
import {
  answerAnimals,
  send,
  startScriptedUpstream,
  type ScriptedUpstream,
} from '../../../test/support/scripted-upstream.js';
import { getFromLists, lookups } from './lookups.js';

let upstream: ScriptedUpstream;
let gateway: ProxyOnly;
const cleanups: (() => unknown)[] = [];

beforeAll(async () => {
  upstream = await startScriptedUpstream();
  gateway = await startProxyBefore(upstream.url, lookups());
});
afterAll(async () => {
  await gateway.close();
  await upstream.close();
});
beforeEach(() => upstream.play(answerAnimals));
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function connect(options: Partial<PetClientOptions> = {}): PetClient {
  return createPetClient({ url: `${gateway.url}/graphql`, key: 'pets_secret', getFromLists, ...options });
}

/** Listens on a free port until the test ends. */
async function listen(server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`;
}

/** The path of the upstream request for an animal. */
const pathOf = (id: number): string => (getFromLists ? `/pets?limit=1&after=${id - 1}` : `/pets/${id}`);
const never = (): void => undefined;
/** Ids so far apart that none share a list, and each costs 1 also through lists. */
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => 100 * (index + 1));
const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'none',
    (error: unknown) => error,
  );

describe('the signal of a call', () => {
  it('rejects the call with an AbortError, and cancels requests without other callers, up to the store', async () => {
    upstream.play(never);
    const client = connect();
    const calls = new AbortController();
    const waiting = failureOf(client.loadMany(upTo(30), { signal: calls.signal }));
    await vi.waitFor(() => expect(upstream.seen.length).toBeGreaterThan(0), { timeout: 20_000 });
    calls.abort();
    expect(await waiting).toMatchObject({ name: 'AbortError' });
    await vi.waitFor(() => expect(upstream.cancelled()).toBe(upstream.seen.length), { timeout: 20_000 });
  });

  it('does not affect other calls that wait for the same ids', async () => {
    let answer: (() => void) | undefined;
    upstream.play((asked, response) => {
      answer = () => answerAnimals(asked, response);
    });
    const client = connect();
    const calls = new AbortController();
    const left = failureOf(client.get(7, { signal: calls.signal }));
    const stayed = client.get(7);
    await vi.waitFor(() => expect(answer).toBeDefined(), { timeout: 20_000 });
    const reason = new Error('no longer needed');
    calls.abort(reason);
    expect(await left).toBe(reason);
    answer?.();
    expect(await stayed).toMatchObject({ id: '7' });
    expect(upstream.seen).toHaveLength(1);
  });

  it('removes lookups that are not yet sent', async () => {
    const client = connect();
    const calls = new AbortController();
    const left = failureOf(client.loadMany([100, 200, 300], { signal: calls.signal }));
    const stayed = client.loadMany([300, 400]);
    calls.abort();
    expect(await left).toMatchObject({ name: 'AbortError' });
    expect(await stayed).toMatchObject([{ id: '300' }, { id: '400' }]);
    expect(upstream.seen.map(({ path }) => path).sort()).toEqual([pathOf(300), pathOf(400)]);
    expect(await failureOf(client.get(5, { signal: calls.signal }))).toMatchObject({ name: 'AbortError' });
  });

  it('can be shared by many calls without a warning', async () => {
    const warnings: Error[] = [];
    const note = (warning: Error): number => warnings.push(warning);
    process.on('warning', note);
    cleanups.push(() => process.off('warning', note));
    const client = connect();
    const { signal } = new AbortController();
    await Promise.all(upTo(100).map((id) => client.get(id, { signal })));
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([]);
  });

  it('gets one listener, which is gone after the last call, and no signal that depends on it', async () => {
    const any = vi.spyOn(AbortSignal, 'any');
    const client = connect();
    const { signal } = new AbortController();
    const calls = upTo(20).map((id) => client.get(id, { signal }));
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    await Promise.all(calls);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect(any).not.toHaveBeenCalled();
    any.mockRestore();
  });
});

it('an aborted call lets the process exit', async () => {
  let requests = 0;
  const url = await listen(
    createHttpServer((_, response) => {
      requests += 1;
      response.writeHead(429, { 'Retry-After': '60' }).end();
    }),
  );
  const program = `import { createPetClient } from 'animal-store-client';
    const client = createPetClient({ url: '${url}', key: 'k' });
    await client.get(1, { signal: AbortSignal.timeout(1_000) }).catch(({ name }) => console.log(name));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    timeout: 20_000,
  });
  expect([stdout, requests]).toEqual(['TimeoutError\n', 1]);
});

describe('requests', () => {
  it('go through the fetch of the application', async () => {
    const urls: string[] = [];
    const client = connect({
      fetch: (url, init) => {
        urls.push(url);
        return fetch(url, init);
      },
    });
    expect(await client.get(1)).toMatchObject({ id: '1' });
    expect(urls).toEqual([`${gateway.url}/graphql`]);
  });

  it('do not follow redirects, so no other server gets the key', async () => {
    let requests = 0;
    const elsewhere = await listen(createHttpServer((_, response) => void response.end(`${(requests += 1)}`)));
    const url = await listen(createHttpServer((_, response) => response.writeHead(307, { Location: elsewhere }).end()));
    expect(await failureOf(connect({ url }).get(1))).toMatchObject({ code: 'UNRECOGNIZED' });
    expect(requests).toBe(0);
  });

  it('can be repeated in the same turn in which they are aborted', async () => {
    const client = connect();
    const calls = new AbortController();
    const left = failureOf(client.get(1, { signal: calls.signal }));
    calls.abort();
    expect(await left).toMatchObject({ name: 'AbortError' });
    expect(await client.get(1)).toMatchObject({ id: '1' });
  });
});

describe('a failure', () => {
  it('is retried after a connection breaks', async () => {
    let connections = 0;
    const port = Number(new URL(gateway.url).port);
    const url = await listen(
      createServer((socket) => {
        socket.on('error', never);
        connections += 1;
        if (connections <= 3) return void socket.once('data', () => socket.destroy());
        const onward = connectTo(port, '127.0.0.1');
        onward.on('error', never);
        socket.pipe(onward).pipe(socket);
      }),
    );
    const results = await connect({ url }).loadMany(upTo(250));
    expect(results.map((result) => (isPetError(result) ? result.code : result.id))).toEqual(upTo(250).map(String));
    expect(connections).toBeGreaterThan(3);
  });

  it('is retried after the time that a load balancer states', async () => {
    const times: number[] = [];
    const url = await listen(
      createHttpServer(
        forwardAfter((_, response) => {
          response.writeHead(503, { 'Content-Type': 'text/html', 'Retry-After': '1' }).end('<h1>busy</h1>');
        }, times),
      ),
    );
    expect(await connect({ url }).get(1)).toMatchObject({ id: '1' });
    expect(times).toHaveLength(2);
    expect((times[1] as number) - (times[0] as number)).toBeGreaterThanOrEqual(990);
  });

  it('is CONNECTION_FAILED after a few attempts if nothing listens', async () => {
    const port = await findFreePort();
    const failure = await failureOf(connect({ url: `http://127.0.0.1:${port}/graphql`, maxWaitMs: 700 }).get(1));
    expect(isPetError(failure)).toBe(true);
    expect(failure).toMatchObject({ code: 'CONNECTION_FAILED' });
    expect((failure as PetError).message).toContain(`http://127.0.0.1:${port}: the connection failed.`);
    expect((failure as PetError).message).not.toContain('pets_secret');
  });

  it('is TIMED_OUT if there is no response', async () => {
    upstream.play(never);
    const failure = await failureOf(connect({ timeoutMs: 200, maxWaitMs: 0 }).get(1));
    expect(failure).toMatchObject({ code: 'TIMED_OUT', message: expect.stringContaining('within 200 ms') as string });
  });

  it.each([
    ['a page', 200, '<html>', 'UNRECOGNIZED'],
    ['JSON, but not a result', 200, '[1]', 'UNRECOGNIZED'],
    ['an error of another program', 403, '{"error":"forbidden"}', 'UNRECOGNIZED'],
    [
      'an error with an unknown code',
      400,
      '{"errors":[{"message":"No.","extensions":{"code":"NEW"}}]}',
      'UNRECOGNIZED',
    ],
    ['half an animal', 200, '{"data":{}}', 'UNRECOGNIZED'],
    ['429 without GraphQL', 429, 'slow down', 'RATE_LIMITED'],
  ])('is recognized if the response is %s', async (_, status, body, code) => {
    const url = await listen(createHttpServer((__, response) => response.writeHead(status).end(body)));
    expect(await connect({ url, maxWaitMs: 0 }).loadMany([1, 2])).toMatchObject([{ code }, { code }]);
  });

  it.each([
    ['an addition', 403, (client: PetClient) => client.add({ name: 'Rex', categoryId: 1 })],
    ['a page', 400, (client: PetClient) => client.list({ after: 7 })],
  ])('is final if the store behind a gateway refuses %s with status %i', async (_, status, call) => {
    upstream.play((__, response) => send(response, status, { code: 'refused', message: 'Not here.', status }));
    const ownFetch = vi.fn(fetch);
    const failure = await failureOf(call(connect({ fetch: ownFetch })));
    expect(failure).toMatchObject({ code: 'UPSTREAM_ERROR', error: { message: 'Not here.', status } });
    expect(ownFetch).toHaveBeenCalledTimes(1);
  });

  it('is final if something else answers in place of the store behind a gateway', async () => {
    upstream.play((_, response) => response.writeHead(404, { 'Content-Type': 'text/html' }).end('<p>No.'));
    const ownFetch = vi.fn(fetch);
    expect(await failureOf(connect({ fetch: ownFetch }).list())).toMatchObject({ code: 'UPSTREAM_ERROR' });
    expect(ownFetch).toHaveBeenCalledTimes(1);
  });

  it('of one animal affects only that animal', async () => {
    upstream.play((asked, response) => {
      if (asked.path === pathOf(200)) response.socket?.destroy();
      else answerAnimals(asked, response);
    });
    const results = await connect({ maxWaitMs: 0 }).loadMany(upTo(3));
    expect(results).toMatchObject([{ id: '100' }, { code: 'UPSTREAM_UNAVAILABLE' }, { id: '300' }]);
  });
});

/** Answers the first request with `first`, and forwards the others to the gateway. */
function forwardAfter(first: RequestListener, times: number[]): RequestListener {
  return (incoming, response) => {
    if (times.push(Date.now()) === 1) return first(incoming, response);
    const { method, url, headers } = incoming;
    const onward = request(gateway.url + (url ?? ''), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    incoming.pipe(onward);
  };
}

it('an animal that fails for good keeps no other from being looked up', async () => {
  const client = createPetClient({
    url: 'http://store.example/graphql',
    key: 'pets_key',
    maxWaitMs: 20_000,
    fetch: (_, init) => {
      const { variables } = JSON.parse(init.body as string) as { variables: Record<string, string> };
      const errors: object[] = [];
      const data = Object.entries(variables).map(([variable, id]) => {
        const alias = variable.replace('i', '_');
        if (Number(id) % 100 !== 50) return [alias, { id, name: 'x', categoryId: '1', status: null }];
        errors.push({ message: 'bad', path: [alias], extensions: { code: 'UPSTREAM_ERROR', error: { status: 500 } } });
        return [alias, null];
      });
      const body = { data: Object.fromEntries(data) as object, ...(errors.length > 0 && { errors }) };
      return Promise.resolve(Response.json(body));
    },
  });
  const results = await client.loadMany(Array.from({ length: 1_000 }, (_, index) => index));
  const codes = results.flatMap((result) => (isPetError(result) ? [result.code] : []));
  expect(codes).toEqual(Array<string>(10).fill('UPSTREAM_ERROR'));
});
