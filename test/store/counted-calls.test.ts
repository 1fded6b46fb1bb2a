import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startGateway, STORES, type Gateway } from '../support/gateway.js';

interface Row {
  readonly client: string;
  readonly through: string;
  readonly coordinate: string;
  readonly calls: string;
  readonly first_at: Date;
  readonly last_at: Date;
}

const GRAPHQL = { through: 'graphql', coordinate: 'Query.pet' };
const REST = { through: 'rest', coordinate: 'GET /v1/pets/{petId}' };
const LOOKUP = '{ pet(id: 1) { id } }';

describe.each(STORES)('calls of deprecated operations, %s store', (mode) => {
  let gateway: Gateway;
  let keyId: string;
  let key: string;
  let startedAt: number;
  /** The rows in the database after everything was written. */
  let rows: Map<string, Row>;

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
    rows = new Map((await listRows()).map((row) => [row.client, row]));
  });
  afterAll(() => gateway.close());

  function listRows(id = keyId): Promise<Row[]> {
    return gateway.sql<Row>(
      'SELECT client, through, coordinate, calls, first_at, last_at FROM deprecated_calls WHERE key_id = $1 ORDER BY client',
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
    await call('another field', '{ pet: pets { id } }');
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
    ['three operations', '3'],
    ['aliases', '1'],
    ['a fragment', '1'],
    ['skipped', '1'],
    ['an absent animal', '1'],
    ['a refused argument', '1'],
    ['a GET', '1'],
    ['a batch', '2'],
  ])('are counted once for each operation: %s', (client, calls) => {
    expect(rows.get(client)).toMatchObject({ ...GRAPHQL, calls });
  });

  it.each(['another field', 'an invalid document', 'a wrong variable', 'a wrong key', 'REST refused', 'REST list'])(
    'are not counted if they never ran: %s',
    (client) => {
      expect(rows.get(client)).toBeUndefined();
    },
  );

  it('are counted once for each REST request, including absent animals and HEAD', () => {
    expect(rows.get('REST')).toMatchObject({ ...REST, calls: '3' });
  });

  it('are counted separately for GraphQL and REST, even without a name', async () => {
    const nameless = (await listRows()).filter(({ client }) => client === '');
    expect(nameless).toMatchObject([
      { ...REST, calls: '1' },
      { ...GRAPHQL, calls: '1' },
    ]);
  });

  it('have the times of the first and last call', () => {
    const { first_at: first, last_at: last } = rows.get('three operations') as Row;
    expect(first.getTime()).toBeGreaterThanOrEqual(startedAt);
    expect(last.getTime()).toBeGreaterThanOrEqual(first.getTime());
    expect(last.getTime()).toBeLessThanOrEqual(Date.now());
  });

  it('have names with printable characters only, and never with the key', () => {
    expect(rows.get('control 2J characters')).toMatchObject({ ...REST, calls: '1' });
    expect(rows.get('long '.repeat(20).trim())).toMatchObject({ ...REST, calls: '1' });
    expect(rows.get('(withheld)')).toMatchObject({ ...REST, calls: '3' });
    for (const name of HOSTILE_NAMES) expect(rows.get(name), name).toMatchObject({ ...REST, calls: '1' });
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

  it('are counted only if the limit admits them', async () => {
    const limits = { perMinute: 2, perDay: 2 };
    const poor = await gateway.createKey({ plan: 'enterprise', limits });
    for (let i = 0; i < 3; i++) await call('poor', LOOKUP, {}, poor.key);
    await fetchAs('poor', '/v1/pets/1', {}, poor.key);
    await expect
      .poll(() => listRows(poor.id), { timeout: 20_000 })
      .toMatchObject([{ ...GRAPHQL, client: 'poor', calls: '2' }]);
  });
});

const HOSTILE_NAMES = [
  `'); DROP TABLE deprecated_calls; --`,
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
      .poll(() => gateway.sql('SELECT client, coordinate, calls FROM deprecated_calls WHERE key_id = $1', [id]), {
        timeout: 20_000,
      })
      .toEqual([{ client: 'behind', coordinate: REST.coordinate, calls: '2' }]);
  });
});
