import { inspect } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createPetClient, PetError, type PetClient, type PetClientOptions } from '../src/index.js';
import { MODES, startGateway, type Gateway } from '../../../test/support/gateway.js';

const DEEP = '9007199254740993';

describe.each(MODES)('createPetClient, %s store', (mode) => {
  let gateway: Gateway;
  const clients: PetClient[] = [];

  beforeAll(async () => {
    gateway = await startGateway(mode);
    await gateway.sql(`INSERT INTO pets (name, category_id, status)
      SELECT 'Animal ' || n, 1 + n % 7, CASE n % 2 WHEN 0 THEN 'sold' END FROM generate_series(1, 1000) AS n`);
    await gateway.sql(`INSERT INTO pets (id, name, category_id) VALUES (${DEEP}, 'Deep', 9223372036854775807)`);
  });
  afterAll(() => gateway.close());
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });

  /** Creates a client with its own key. */
  async function connect(options: Partial<PetClientOptions> = {}): Promise<PetClient> {
    const { key } = await gateway.createKey();
    const client = createPetClient({ url: `${gateway.url}/graphql`, key, ...options });
    clients.push(client);
    return client;
  }

  /** Counts the requests to /graphql that the gateway has answered. */
  async function countRoundTrips(): Promise<number> {
    const text = await (await gateway.fetch('/metrics')).text();
    const counts = text.matchAll(/^http_server_request_duration_seconds_count\{http_route="\/graphql".*\} (\d+)$/gm);
    return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
  }

  it('looks up 1,000 animals in ten requests, in order', async () => {
    const client = await connect();
    const before = await countRoundTrips();
    const ids = Array.from({ length: 1_000 }, (_, index) => 1 + ((index * 617) % 1_000));
    const pets = await client.loadMany(ids);
    expect(pets.map((pet) => pet instanceof PetError || pet.name)).toEqual(ids.map((id) => `Animal ${id}`));
    expect((await countRoundTrips()) - before).toBe(10);
  });

  it('sends its name, so that the operators of the store can tell who uses the deprecated field', async () => {
    const client = await connect({ clientName: 'stock service' });
    await client.load(1);
    await expect
      .poll(() => gateway.logged.find((line) => line.client === 'stock service'))
      .toMatchObject({ deprecated: true });
    for (const clientName of ['', ' a', 'ü', 'a\n', 'x'.repeat(101)]) {
      expect(() => createPetClient({ url: gateway.url, key: 'k', clientName })).toThrow(/clientName/);
    }
  });

  it('collects the lookups of one turn, also after promise callbacks, and sends each id once', async () => {
    const { key } = await gateway.createKey();
    const client = await connect({ key });
    const before = await countRoundTrips();
    const pets = await Promise.all(
      Array.from({ length: 90 }, async (_, index) => {
        for (let hop = 0; hop < index % 9; hop++) await Promise.resolve();
        return client.load(1 + (index % 30));
      }),
    );
    expect(pets.map(({ id }) => id)).toEqual(Array.from({ length: 90 }, (_, index) => String(1 + (index % 30))));
    expect((await countRoundTrips()) - before).toBe(1);
    const { data } = await gateway.graphql('{ rateLimit { windows { limit remaining } } }', { key });
    expect(data.rateLimit.windows[0]).toEqual({ limit: 1_000, remaining: 970 });
  });

  it('returns an animal or an error for each id', async () => {
    const client = await connect();
    const given = ['2', 404_404, DEEP, BigInt(DEEP), '007', 2 ** 53, 1.5, 3, '2'] as const;
    const results = await client.loadMany(given);
    expect(results[0]).toEqual({ id: '2', name: 'Animal 2', categoryId: '3', status: 'SOLD' });
    expect(results[2]).toEqual({ id: DEEP, name: 'Deep', categoryId: '9223372036854775807', status: null });
    expect(results[3]).toEqual(results[2]);
    expect(results[8]).toEqual(results[0]);
    expect(results.map((result) => (result instanceof PetError ? [result.code, result.id] : result.id))).toEqual([
      '2',
      ['NOT_FOUND', '404404'],
      DEEP,
      DEEP,
      ['INVALID_ID', '007'],
      ['INVALID_ID', '9007199254740992'],
      ['INVALID_ID', '1.5'],
      '3',
      '2',
    ]);
    expect(results[1]).toMatchObject({
      error: { code: 'not_found', status: 404 },
      requestId: expect.stringMatching(/.+/) as string,
    });
    expect((results[5] as PetError).message).toContain('got the number 9007199254740992');
  });

  it('rejects a single lookup with its error', async () => {
    const client = await connect();
    await expect(client.load('4040')).rejects.toMatchObject({ name: 'PetError', code: 'NOT_FOUND', id: '4040' });
    await expect(client.load('x')).rejects.toMatchObject({ code: 'INVALID_ID' });
    expect(await client.loadMany([])).toEqual([]);
  });

  it('fails every lookup with UNAUTHENTICATED after one request if the key is invalid', async () => {
    const key = 'pets_unknown';
    const client = await connect({ key });
    const before = await countRoundTrips();
    const results = await client.loadMany(Array.from({ length: 300 }, (_, index) => index + 1));
    expect(new Set(results.map((result) => result instanceof PetError && result.code))).toEqual(
      new Set(['UNAUTHENTICATED']),
    );
    expect((await countRoundTrips()) - before).toBe(1);
    expect(inspect(results, { depth: 9 })).not.toContain(key);
  });
});

describe('createPetClient', () => {
  const valid = { url: 'http://127.0.0.1:1/graphql', key: 'pets_key' };

  it.each([
    [{ url: 'animals' }, TypeError, 'url must be'],
    [{ url: 'ftp://host/graphql' }, TypeError, 'url must be'],
    [{ key: '' }, TypeError, 'key must be'],
    [{ key: 'secret\r\nX: y' }, TypeError, 'key must be'],
    [{ maxRootFields: 0 }, RangeError, 'maxRootFields must be a whole number from 1 to 1000000, got 0'],
    [{ concurrency: 1.5 }, RangeError, 'concurrency must be'],
    [{ waitBudgetMs: Infinity }, RangeError, 'waitBudgetMs must be'],
    [{ timeoutMs: -1 }, RangeError, 'timeoutMs must be'],
  ])('rejects %j and names the option', (wrong, kind, words) => {
    const create = (): PetClient => createPetClient({ ...valid, ...wrong });
    expect(create).toThrow(kind);
    expect(create).toThrow(words);
    expect(create).not.toThrow('secret');
  });
});
