import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startGateway, STORES, type Gateway } from '../support/gateway.js';

interface Row {
  readonly client: string;
  readonly operation: string;
  readonly deprecated: string;
  readonly requests: string;
  readonly cost: string;
  readonly errors: string;
  readonly refused: string;
  readonly last_at: Date;
}

const GRAPHQL = { operation: 'query', deprecated: 'Query.pet' };
const REST = { operation: 'GET /v1/pets/{petId}', deprecated: 'GET /v1/pets/{petId}' };
/** The columns of a row that are not counts of problems. */
const FINE = { errors: '0', refused: '0' };
const LOOKUP = '{ pet(id: 1) { id } }';

describe.each(STORES)('the usage of keys, %s store', (mode) => {
  let gateway: Gateway;
  let keyId: string;
  let key: string;
  let startedAt: number;
  /** The rows in the database after everything was written, by client. */
  let rows: Map<string, Row[]>;

  beforeAll(async () => {
    startedAt = Date.now();
    gateway = await startGateway(mode);
    ({ id: keyId, key } = await gateway.createKey());
    await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10)`);
    await callInEveryWay();
    // Sent last: when it is written, so are all others.
    await call('the end', LOOKUP);
    await vi.waitFor(async () => expect((await listRows()).map(({ client }) => client)).toContain('the end'), {
      timeout: 20_000,
      interval: 100,
    });
    rows = new Map();
    for (const row of await listRows()) rows.set(row.client, [...(rows.get(row.client) ?? []), row]);
  });
  afterAll(() => gateway.close());

  function listRows(id = keyId): Promise<Row[]> {
    return gateway.sql<Row>(
      'SELECT client, operation, deprecated, requests, cost, errors, refused, last_at FROM usage WHERE key_id = $1 ORDER BY client, operation, deprecated DESC',
      [id],
    );
  }

  function call(name: string, query: string, variables = {}, callerKey = key): Promise<unknown> {
    return gateway.graphql(query, {
      key: callerKey,
      variables,
      headers: { 'apollographql-client-name': name },
    });
  }

  async function fetchAs(name: string, path: string, init: RequestInit = {}, callerKey = key): Promise<void> {
    const headers = new Headers(init.headers);
    headers.set('Authorization', `Bearer ${callerKey}`);
    headers.set('apollographql-client-name', name);
    await (await gateway.fetch(path, { ...init, headers })).text();
  }

  async function callInEveryWay(): Promise<void> {
    for (let i = 0; i < 3; i++) await call('three operations', LOOKUP);
    await call('aliases', '{ a: pet(id: 1) { id } b: pet(id: 2) { id } c: pet(id: 3) { id } }');
    await call('a fragment', '{ ...F } fragment F on Query { pet(id: 1) { id } }');
    await call('skipped', 'query ($no: Boolean!) { pet(id: 1) @include(if: $no) { id } pets { id } }', { no: false });
    await call('an absent animal', '{ pet(id: 404) { id } }');
    await call('a refused argument', '{ pet(id: "x") { id } }');
    await fetchAs('a GET', `/graphql?query=${encodeURIComponent(LOOKUP)}`);
    await fetchAs('a batch', '/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify([{ query: LOOKUP }, { query: '{ pets { id } }' }, { query: LOOKUP }, { query: '{ no' }]),
    });
    await call('another field', 'query Listing { pet: pets { id } }');
    await fetchAs('a malformed body', '/graphql', { method: 'POST', body: '{' });
    await fetchAs('no route', '/v1/nowhere');
    await call('an invalid document', '{ pet { id } }');
    await call('a wrong variable', 'query ($id: ID!) { pet(id: $id) { id } }', { id: null });
    await call('a wrong key', LOOKUP, {}, `${key}x`);
    await gateway.graphql(LOOKUP, { key });

    await fetchAs('REST', '/v1/pets/1');
    await fetchAs('REST', '/v1/pets/404');
    await fetchAs('REST', '/v1/pets/1', { method: 'HEAD' });
    await fetchAs('REST refused', '/v1/pets/x');
    await fetchAs('REST refused', '/v1/pets/1?a=1');
    await fetchAs('REST refused', '/v1/pets/1', { method: 'DELETE' });
    await fetchAs('REST list', '/v1/pets');
    await fetchAs('both', '/v1/pets/1');

    await fetchAs('control \u009b2J\u0085characters\u00ad', '/v1/pets/1');
    await fetchAs(`${'long '.repeat(30)}${'x'.repeat(5_000)}`, '/v1/pets/1');
    await fetchAs(`my key is ${key}!`, '/v1/pets/1');
    await fetchAs(`pets_${'7'.repeat(38)}`, '/v1/pets/1');
    await fetchAs(`${'x'.repeat(90)}${key}`, '/v1/pets/1');
    await fetchAs('\u0080\u00a0', '/v1/pets/1');
    for (const name of HOSTILE_NAMES) await fetchAs(name, '/v1/pets/1');
  }

  it.each([
    ['three operations', 3, 3, 0],
    ['aliases', 1, 3, 1],
    ['a fragment', 1, 1, 0],
    ['an absent animal', 1, 1, 1],
    ['a refused argument', 1, 0, 1],
    ['a GET', 1, 1, 0],
  ])('counts each operation with its cost and errors, and what it used that is deprecated: %s', (client, ...counts) => {
    const [requests, cost, errors] = counts.map(String);
    expect(rows.get(client)).toMatchObject([{ ...GRAPHQL, requests, cost, errors, refused: '0' }]);
  });

  it('counts each operation of a batch', () => {
    expect(rows.get('a batch')).toMatchObject([
      { ...GRAPHQL, requests: '2', cost: '2', ...FINE },
      { operation: 'query', deprecated: '', requests: '1', cost: '1', ...FINE },
      { operation: 'unknown', deprecated: '', requests: '1', cost: '0', errors: '1' },
    ]);
  });

  it.each([
    ['another field', 'Listing', '1', '0'],
    ['skipped', 'query', '1', '0'],
    ['an invalid document', 'unknown', '0', '1'],
    ['REST list', 'GET /v1/pets', '1', '0'],
  ])('counts what uses nothing deprecated: %s', (client, operation, cost, errors) => {
    expect(rows.get(client)).toMatchObject([{ operation, deprecated: '', requests: '1', cost, errors, refused: '0' }]);
  });

  it('counts an operation or request that never ran, but not as deprecated', () => {
    expect(rows.get('a wrong variable')).toMatchObject([{ deprecated: '', requests: '1', cost: '0', errors: '1' }]);
    expect(rows.get('REST refused')?.map(({ deprecated, cost }) => deprecated + cost)).toEqual(['0']);
    // These reach no operation.
    for (const client of ['a wrong key', 'a malformed body', 'no route']) expect(rows.get(client)).toBeUndefined();
  });

  it('counts REST requests by route, including absent animals and HEAD', () => {
    expect(rows.get('REST')).toMatchObject([{ ...REST, requests: '3', cost: '3', errors: '1' }]);
    expect(rows.get('')?.map(({ operation }) => operation)).toEqual([REST.operation, 'query']);
  });

  it('has the time of the last request', () => {
    const [{ last_at: last }] = rows.get('three operations') as [Row];
    expect(last.getTime()).toBeGreaterThanOrEqual(startedAt);
    expect(last.getTime()).toBeLessThanOrEqual(Date.now());
  });

  it('have names with printable characters only, and never with the key', () => {
    expect(rows.get('control 2J characters')).toMatchObject([{ ...REST, requests: '1' }]);
    expect(rows.get('long '.repeat(20).trim())).toMatchObject([{ ...REST, requests: '1' }]);
    expect(rows.get('(redacted)')).toMatchObject([{ ...REST, requests: '3' }]);
    for (const name of HOSTILE_NAMES) expect(rows.get(name), name).toMatchObject([{ ...REST, requests: '1' }]);
    for (const name of rows.keys()) {
      expect(name).toMatch(/^[\x20-\x7e\xa1-\xff]{0,100}$/);
      expect(name).not.toContain(key.slice(0, 10));
    }
  });

  it('are logged with the name of the client', () => {
    const lines = gateway.logged.filter(({ msg }) => msg === 'request');
    expect(lines.filter(({ client }) => client === 'aliases')).toMatchObject([{ keyId, deprecated: true }]);
    expect(lines.filter(({ client }) => client === 'REST')).toMatchObject(Array(3).fill({ keyId, deprecated: true }));
    expect(lines.filter(({ client }) => client === 'another field')).toEqual([]);
    expect(lines.filter(({ path, deprecated }) => path === '/v1/pets' && deprecated !== undefined)).toEqual([]);
    expect(JSON.stringify(gateway.logged)).not.toContain(key);
  });

  it('counts refusals apart, without a cost', async () => {
    const limits = { perMinute: 2, perDay: 2 };
    const poor = await gateway.createKey({ plan: 'enterprise', limits });
    for (let i = 0; i < 3; i++) await call('poor', LOOKUP, {}, poor.key);
    await fetchAs('poor', '/v1/pets/1', {}, poor.key);
    await expect
      .poll(() => listRows(poor.id), { timeout: 20_000 })
      .toMatchObject([
        {
          client: 'poor',
          operation: REST.operation,
          deprecated: '',
          requests: '1',
          cost: '0',
          errors: '1',
          refused: '1',
        },
        { client: 'poor', ...GRAPHQL, requests: '2', cost: '2', ...FINE },
        { client: 'poor', operation: 'query', deprecated: '', requests: '1', cost: '0', errors: '1', refused: '1' },
      ]);
  });
});

const HOSTILE_NAMES = [
  `'); DROP TABLE usage; --`,
  `$1`,
  `{"json":[null]}`,
  `back\\slash \\u0000 \\`,
  'null',
  '__proto__',
  '<script>alert(1)</script>',
  '\u00fcber "quoted"',
];

describe('a gateway in front of a store', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway('proxy');
  });
  afterAll(() => gateway.close());

  it('sends the name of the client to the store, which counts its own requests', async () => {
    const { id, key } = await gateway.createKey();
    await gateway.graphql('{ a: pet(id: 1) { id } b: pet(id: 2) { id } }', {
      key,
      headers: { 'apollographql-client-name': 'behind' },
    });
    expect(gateway.logged.filter(({ client }) => client === 'behind')).toMatchObject([{ deprecated: true }]);
    await expect
      .poll(() => gateway.sql('SELECT client, operation, requests FROM usage WHERE key_id = $1', [id]), {
        timeout: 20_000,
      })
      .toEqual([{ client: 'behind', operation: REST.operation, requests: '2' }]);
  });
});
