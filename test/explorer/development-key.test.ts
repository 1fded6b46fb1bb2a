import { networkInterfaces } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';
import { request } from '../support/raw-request.js';

const PATH = '/explorer/development-key';
const NOTHING = { status: 204, body: '' };
const NETWORK_ADDRESS = Object.values(networkInterfaces())
  .flat()
  .find((each) => each?.family === 'IPv4' && !each.internal)?.address;

function ask(url: string, headers: Record<string, string>, localAddress?: string) {
  return request(url, { method: 'POST', path: PATH, headers, localAddress });
}

describe('the development key', () => {
  let gateway: Gateway;
  let local: string;
  let port: string;

  beforeAll(async () => {
    gateway = await startGateway('embedded', { NODE_ENV: 'development', HOST: '0.0.0.0' });
    ({ port } = new URL(gateway.url));
    local = `http://127.0.0.1:${port}`;
  });
  afterAll(() => gateway.close());

  /** The headers that a page served from `name` sends. */
  const pageOf = (name: string) => ({ Host: `${name}:${port}`, Origin: `http://${name}:${port}` });

  it.each(['127.0.0.1', 'localhost', '[::1]'])('is sent to the page at %s, and is valid', async (name) => {
    const { status, body } = await ask(local, pageOf(name));
    expect(status).toBe(200);
    const { key } = JSON.parse(body) as { key: string };
    const { data } = await gateway.graphql('{ rateLimit { plan } }', { key });
    expect(data.rateLimit.plan).toBe('FREE');
  });

  it('is not cached', async () => {
    const response = await fetch(local + PATH, { method: 'POST' });
    expect(response.headers.get('cache-control')).toBe('no-store');
  });

  it.each(['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example'])(
    'is not sent to %s, a name that resolves to this machine',
    async (name) => {
      expect(await ask(local, pageOf(name))).toEqual(NOTHING);
    },
  );

  it.each([undefined, 'null', 'http://127.0.0.1:1', 'https://127.0.0.1', 'https://behind-a-tunnel.example'])(
    'is not sent to a page with the origin %s',
    async (origin) => {
      const { Host } = pageOf('127.0.0.1');
      expect(await ask(local, { Host, ...(origin !== undefined && { Origin: origin }) })).toEqual(NOTHING);
    },
  );

  it.each(['Forwarded', 'Via', 'X-Forwarded-For', 'X-Forwarded-Host', 'X-Forwarded-Proto', 'X-Real-IP'])(
    'is not sent through a proxy that sets %s',
    async (header) => {
      expect(await ask(local, { ...pageOf('127.0.0.1'), [header]: '127.0.0.1' })).toEqual(NOTHING);
    },
  );

  it.runIf(NETWORK_ADDRESS)('is not sent to another machine', async () => {
    const url = `http://${NETWORK_ADDRESS as string}:${port}`;
    expect(await ask(url, pageOf('127.0.0.1'), NETWORK_ADDRESS)).toEqual(NOTHING);
  });

  it('requires POST, because browsers always send Origin with it', async () => {
    expect((await request(local, { path: PATH, headers: pageOf('127.0.0.1') })).status).toBe(405);
  });
});

describe('without a development key', () => {
  it.each([
    ['in production', 'embedded', { NODE_ENV: 'production', EXPLORER: 'true' }],
    ['on a PostgreSQL server', 'server', { NODE_ENV: 'development' }],
    ['in proxy mode', 'proxy', { NODE_ENV: 'development' }],
  ] as const)('nothing is sent %s', async (_, mode, env) => {
    const gateway = await startGateway(mode, env);
    try {
      const { host, origin } = new URL(gateway.url);
      expect(await ask(gateway.url, { Host: host, Origin: origin })).toEqual(NOTHING);
    } finally {
      await gateway.close();
    }
  });
});
