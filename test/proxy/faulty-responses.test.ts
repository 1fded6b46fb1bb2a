import { createServer, type AddressInfo, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { startProxyBefore } from '../support/gateway.js';
import { send, startScriptedUpstream } from '../support/scripted-upstream.js';

const KEYS = 16;
const FAULTS = ['surplus', 'late', 'later', 'early', 'informational', 'close'] as const;

/** An upstream that answers each request with the name of its key, and makes a fault with every tenth answer. */
async function startFaultyUpstream(fault: (typeof FAULTS)[number]) {
  const sockets = new Set<Socket>();
  let answered = 0;
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined).on('close', () => sockets.delete(socket)));
    if (fault === 'early' && sockets.size % 3 === 0) socket.write(toResponse('nobody', 'an-id'));
    let received = '';
    socket.on('data', (bytes) => {
      received += bytes.toString();
      const heads = received.split('\r\n\r\n');
      received = heads.pop() as string;
      for (const head of heads) setTimeout(answer, 1 + Math.random() * 4, socket, head);
    });
  });

  function toResponse(key: string, id: string): string {
    const body = `[{"id":1,"name":"${key}","categoryId":1}]`;
    const header = `X-Request-Id: ${id}\r\n`;
    return `HTTP/1.1 ${key === 'refused' ? '401 Unauthorized' : '200 OK'}\r\n${header}Content-Length: ${body.length}\r\n\r\n${body}`;
  }

  function answer(socket: Socket, head: string): void {
    const key = /authorization: Bearer (\S+)/i.exec(head)?.[1] ?? '';
    const response = toResponse(key, /x-request-id: (\S+)/i.exec(head)?.[1] ?? '');
    answered += 1;
    const isFaulty = answered % 10 === 0;
    if (isFaulty && fault === 'informational') socket.write('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n');
    socket.write(response + (isFaulty && fault === 'surplus' ? response : ''));
    if (isFaulty && fault === 'late') setImmediate(() => socket.write(response));
    if (isFaulty && fault === 'later') setTimeout(() => socket.write(response), 3);
    if (isFaulty && fault === 'close') socket.end();
  }

  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

/** Sends requests with sixteen keys at once, and counts the responses that are those of another key. */
async function countWrong(requests: number, ask: (key: string) => Promise<string | undefined>) {
  let wrong = 0;
  let right = 0;
  const askAll = async (_: unknown, index: number): Promise<void> => {
    const key = `key-${index}`;
    for (let i = 0; i < requests; i += 1) {
      const name = await ask(key);
      if (name === key) right += 1;
      else if (name !== undefined) wrong += 1;
    }
  };
  await Promise.all(Array.from({ length: KEYS }, askAll));
  return { wrong, right };
}

it.each(FAULTS)('no key gets the response of another if the upstream returns request ids: %s', async (fault) => {
  const upstream = await startFaultyUpstream(fault);
  const gateway = await startProxyBefore(`${upstream.url}/v1`, { UPSTREAM_CONNECTIONS: '8' });
  await expect.poll(async () => (await gateway.graphql('{ pets { name } }', { key: 'first' })).status).toBe(200);
  expect((await gateway.graphql('{ pets { name } }', { key: 'refused' })).status).toBe(401);
  const { wrong, right } = await countWrong(20, async (key) => {
    if (Math.random() < 0.1) {
      const leaving = AbortSignal.timeout(Math.ceil(Math.random() * 5));
      const init = { headers: { Authorization: `Bearer ${key}` }, signal: leaving };
      await gateway.fetch('/graphql?query={pets{name}}', init).catch(() => undefined);
    }
    const { data, errors } = await gateway.graphql('{ pets { name } }', { key });
    const [error] = errors ?? [];
    // A request may be late on a busy machine.
    const code = error?.extensions.code;
    if (code !== undefined) return /^UPSTREAM|^SERVICE_UNAVAILABLE$/.test(code) ? undefined : code;
    return (data as { pets: { name: string }[] }).pets[0]?.name;
  });
  expect(wrong).toBe(0);
  // Faults in a row may open the breaker for a moment, which refuses requests without an answer.
  expect(right).toBeGreaterThan(KEYS);
  await gateway.close();
  upstream.close();
});

it('a POST that gets the response of another request fails, and is not sent again', async () => {
  let isMixedUp = false;
  const upstream = await startScriptedUpstream(({ headers }, response) => {
    response.setHeader('X-Request-Id', isMixedUp ? 'another' : String(headers['x-request-id']));
    send(response, 200, isMixedUp ? '{"id":1,"name":"x","categoryId":1}' : '[]');
  });
  const gateway = await startProxyBefore(upstream.url);
  expect((await gateway.graphql('{ pets { id } }', { key: 'a' })).errors).toBeUndefined();
  isMixedUp = true;
  const add = 'mutation { addPet(input: { name: "x", categoryId: 1 }) { id } }';
  const { data, errors } = await gateway.graphql(add, { key: 'a' });
  expect([data, errors?.[0]?.extensions.code]).toEqual([{ addPet: null }, 'UPSTREAM_ERROR']);
  expect(upstream.seen.filter(({ method }) => method === 'POST')).toHaveLength(1);
  await gateway.close();
  await upstream.close();
});

it('a GET that gets the response of another request is sent again, whatever that response says', async () => {
  const upstream = await startScriptedUpstream(({ headers }, response) => {
    const isMixedUp = upstream.seen.length === 2;
    response.setHeader('X-Request-Id', isMixedUp ? 'another' : String(headers['x-request-id']));
    if (isMixedUp) response.setHeader('Retry-After', '3600');
    send(response, 200, '[]');
  });
  const gateway = await startProxyBefore(upstream.url);
  for (let count = 0; count < 2; count += 1)
    expect((await gateway.graphql('{ pets { id } }', { key: 'a' })).data).toEqual({ pets: [] });
  expect(upstream.seen).toHaveLength(3);
  await gateway.close();
  await upstream.close();
});

it('responses without a request id are accepted, because something in between may have answered', async () => {
  const upstream = await startScriptedUpstream(({ headers }, response) => {
    response.setHeader('X-Request-Id', String(headers['x-request-id']));
    send(response, 200, '[]');
  });
  const gateway = await startProxyBefore(upstream.url);
  const statusOf = async (key: string) => (await gateway.graphql('{ pets { id } }', { key })).status;
  expect(await statusOf('a')).toBe(200);
  upstream.play((_, response) => send(response, 429, { code: 'slow', message: 'No.', status: 429 }));
  expect([await statusOf('a'), await statusOf('a')]).toEqual([429, 429]);
  expect(upstream.seen).toHaveLength(1);
  upstream.play((_, response) => send(response, 200, '[]'));
  expect(await statusOf('b')).toBe(200);
  await gateway.close();
  await upstream.close();
});

it('white space after a request id is not part of it', async () => {
  const upstream = await startScriptedUpstream(({ headers }, response) => {
    response.setHeader('X-Request-Id', `${String(headers['x-request-id'])}${upstream.seen.length > 1 ? ' \t' : ''}`);
    send(response, 200, '[]');
  });
  const gateway = await startProxyBefore(upstream.url);
  for (let i = 0; i < 3; i += 1) {
    expect(await gateway.graphql('{ pets { id } }', { key: 'a' })).toMatchObject({ status: 200, data: { pets: [] } });
  }
  await gateway.close();
  await upstream.close();
});
