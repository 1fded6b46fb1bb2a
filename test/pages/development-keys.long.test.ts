import { afterEach, describe, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';

const PATH = '/explorer/development-keys';

describe('the development keys', () => {
  let gateway: Gateway;
  afterEach(() => gateway.close());

  /** The token in the address of the explorer that the program prints. */
  const token = (): string => /#token=([\w-]{22})$/.exec(gateway.explorerUrl ?? '')?.[1] ?? '';

  function exchange(sent: string | undefined): Promise<Response> {
    const headers: Record<string, string> = sent === undefined ? {} : { Authorization: `Bearer ${sent}` };
    return gateway.fetch(PATH, { method: 'POST', headers });
  }

  it('are sent once for the token in the printed address, and to nobody else', async () => {
    gateway = await startGateway('embedded', { NODE_ENV: 'development' });
    const { host, origin } = new URL(gateway.url);
    const local = await gateway.fetch(PATH, { method: 'POST', headers: { Host: host, Origin: origin } });
    expect(local.status).toBe(401);
    for (const wrong of ['', 'x', `${token().slice(0, -1)}!`, `${token()}A`]) {
      const refused = await exchange(wrong);
      expect(refused.status).toBe(401);
      // Nobody has used the token yet.
      expect(await refused.text()).not.toContain('used already');
    }
    const response = await exchange(token());
    expect(response.status).toBe(200);
    expect(response.headers.get('cache-control')).toBe('no-store');
    for (const [plan, key] of Object.entries((await response.json()) as Record<string, string>)) {
      const { data } = await gateway.graphql('{ rateLimit { plan } }', { key });
      expect(data.rateLimit.plan).toBe(plan.toUpperCase());
    }
    const again = await exchange(token());
    expect([again.status, again.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="animal-store"']);
    expect(await again.json()).toMatchObject({
      code: 'unauthorized',
      message: 'The token is not valid. Each start of the server prints a new one, which works once.',
    });
    expect((await gateway.fetch(PATH)).status).toBe(405);
  });

  it.each([
    ['in production', 'embedded', { NODE_ENV: 'production', EXPLORER: 'true' }],
    ['on a PostgreSQL server', 'server', { NODE_ENV: 'development' }],
    ['in proxy mode', 'proxy', { NODE_ENV: 'development' }],
  ] as const)('do not exist %s', async (_, mode, env) => {
    gateway = await startGateway(mode, env);
    expect(gateway.explorerUrl).toBe(`${gateway.url}/explorer`);
    for (const sent of [undefined, '', 'undefined']) expect((await exchange(sent)).status).toBe(401);
  });
});
