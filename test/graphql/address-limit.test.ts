import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, MODES, type Gateway } from '../support/gateway.js';

const PETS = '{ pets { id } }';

describe.each(MODES)('requests without a valid key, %s store', (mode) => {
  let gateway: Gateway;
  let behindProxy: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    behindProxy = await startGateway(mode, { TRUST_PROXY: 'true' });
  });
  afterAll(async () => {
    await gateway.close();
    await behindProxy.close();
  });

  /** Gives each test its own client address, behind a trusted proxy. */
  function from(address: string) {
    return { 'X-Forwarded-For': address };
  }

  it('get 60 responses with 401 a minute, then 429, while a valid key from the same address is served', async () => {
    const { key } = await gateway.createKey();
    // In front of another store, a key must have been accepted before.
    expect((await gateway.graphql(PETS, { key })).status).toBe(200);
    for (let i = 0; i < 60; i++) {
      const claimed = from(`192.0.2.${i}`);
      const { status } = await gateway.graphql(PETS, { key: i % 2 === 0 ? undefined : `wrong${i}`, headers: claimed });
      expect(status).toBe(401);
    }
    const { status, headers, errors, text } = await gateway.graphql(PETS, { headers: from('192.0.2.99') });
    expect(status).toBe(429);
    expect(JSON.parse(text)).not.toHaveProperty('data');
    const wait = Number(headers.get('retry-after'));
    expect(wait).toBeGreaterThan(0);
    expect(wait).toBeLessThanOrEqual(60);
    const message = `Too many requests without a valid key came from this address. Retry in ${wait} s.`;
    expect(errors?.[0]).toMatchObject({
      message,
      extensions: { code: 'RATE_LIMITED', error: { code: 'rate_limited', status: 429, message }, retryAfter: wait },
    });
    expect(headers.get('x-ratelimit-remaining')).toBe('0');
    expect((await gateway.graphql(PETS, { key: 'wrong' })).status).toBe(429);
    expect((await gateway.graphql('{ __typename }')).status).toBe(200);

    const served = await gateway.graphql(PETS, { key });
    expect(served.status).toBe(200);
    expect(served.headers.get('x-ratelimit-limit')).toBe('1000');
  });

  it('get the limit headers of the client address', async () => {
    const first = await behindProxy.graphql(PETS, { headers: from('192.0.2.1') });
    expect(first.headers.get('x-ratelimit-limit')).toBe('60');
    expect(first.headers.get('x-ratelimit-remaining')).toBe('59');
    expect(first.headers.get('ratelimit-policy')).toBe('"minute";q=60;w=60');
    expect(first.headers.get('ratelimit')).toMatch(/^"minute";r=59;t=(?:60|5\d)$/);
    const second = await behindProxy.graphql(PETS, { key: 'wrong', headers: from('192.0.2.1') });
    expect(second.headers.get('x-ratelimit-remaining')).toBe('58');
    expect(second.headers.get('x-ratelimit-reset')).toBe(first.headers.get('x-ratelimit-reset'));
  });

  it('count for the /64 of an IPv6 address, and not for an address that is none', async () => {
    const remaining = async (address: string) =>
      (await behindProxy.graphql(PETS, { headers: from(address) })).headers.get('x-ratelimit-remaining');
    expect(await remaining('2001:db8:1:2::1')).toBe('59');
    expect(await remaining('2001:db8:1:2:ffff:ffff:ffff:ffff')).toBe('58');
    expect(await remaining('[2001:0DB8:0001:0002::7]:4711')).toBe('57');
    expect(await remaining('2001:db8:1:3::1')).toBe('59');
    expect(await remaining('::ffff:192.0.2.7')).toBe('59');
    expect(await remaining('192.0.2.7:80')).toBe('58');
    // The program never keeps a text of the client's choice: it counts for the connection.
    expect(await remaining('x'.repeat(10_000))).toBe('59');
    expect(await remaining('unknown')).toBe('58');
  });

  it('count only when they get a 401', async () => {
    const headers = from('192.0.2.2');
    for (let i = 0; i < 5; i++) {
      expect((await behindProxy.graphql('{ __typename }', { headers })).status).toBe(200);
      const untyped = await behindProxy.fetch('/graphql', { method: 'POST', headers, body: 'x' });
      expect(untyped.status).toBe(415);
      expect(untyped.headers.get('x-ratelimit-remaining')).toBe('60');
    }
    const refused = await behindProxy.graphql(PETS, { headers });
    expect(refused.status).toBe(401);
    expect(refused.headers.get('x-ratelimit-remaining')).toBe('59');
  });

  it('count a batch as one response', async () => {
    const { status, headers } = await behindProxy.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...from('192.0.2.6') },
      body: JSON.stringify([{ query: PETS }, { query: PETS }, { query: PETS }]),
    });
    expect([status, headers.get('x-ratelimit-remaining')]).toEqual([401, '59']);
  });

  it('are not counted for a valid key, even when it is refused', async () => {
    const headers = from('192.0.2.3');
    const { key } = await behindProxy.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 1 } });
    for (let i = 0; i < 5; i++) await behindProxy.graphql(PETS, { key, headers });
    const refused = await behindProxy.graphql(PETS, { headers });
    expect(refused.headers.get('x-ratelimit-remaining')).toBe('59');
  });

  it('get exactly 60 responses with 401 when they are concurrent', async () => {
    const headers = from('192.0.2.4');
    const answers = await Promise.all(Array.from({ length: 100 }, () => behindProxy.graphql(PETS, { headers })));
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(60);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(40);

    const forged = await behindProxy.graphql(PETS, { headers: from('203.0.113.9, 192.0.2.4') });
    expect(forged.status).toBe(429);
    const other = await behindProxy.graphql(PETS, { headers: from('192.0.2.5') });
    expect(other.status).toBe(401);
  });
});
