import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  createPetClient,
  isPetError,
  type PetError,
  type Pet,
  type PetClient,
  type PetClientOptions,
} from '../src/index.js';
import { MODES, startGateway, type Gateway } from '../../../test/support/gateway.js';
import { lookups } from './lookups.js';

const DEEP = '9007199254740993';
/** What thirty neighbours cost. */
const LOOKUPS = { by: 'by lookups', isDeprecated: true, cost: 30 };
const LISTS = { by: 'by lists, as after the removal of the lookup', isDeprecated: false, cost: 1 };

const SUITES = MODES.flatMap((mode) => [
  { mode, getFromLists: false, ...LOOKUPS },
  { mode, getFromLists: true, ...LISTS },
]);

describe.each(SUITES)('createPetClient, $mode store, $by', ({ mode, getFromLists, isDeprecated, cost }) => {
  let gateway: Gateway;

  beforeAll(async () => {
    // The machine may be busy: a request that times out would be repeated.
    gateway = await startGateway(mode, { UPSTREAM_TIMEOUT_MS: '60000', ...lookups(getFromLists) });
    await gateway.sql(`INSERT INTO pets (name, category_id, status)
      SELECT 'Animal ' || n, 1 + n % 7, CASE n % 2 WHEN 0 THEN 'sold' END FROM generate_series(1, 1000) AS n`);
    await gateway.sql(`INSERT INTO pets (id, name, category_id) VALUES (${DEEP}, 'Deep', 9223372036854775807)`);
  });
  afterAll(() => gateway.close());

  /** Creates a client with its own key. */
  async function connect(options: Partial<PetClientOptions> = {}): Promise<PetClient> {
    const { key } = await gateway.createKey();
    return createPetClient({ url: `${gateway.url}/graphql`, key, timeoutMs: 60_000, getFromLists, ...options });
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
    expect(pets.map((pet) => isPetError(pet) || pet.name)).toEqual(ids.map((id) => `Animal ${id}`));
    expect((await countRoundTrips()) - before).toBe(10);
  });

  it('sends its name, so that the operators of the store can tell who uses the deprecated field', async () => {
    const client = await connect({ clientName: 'stock service' });
    await client.get(1);
    await expect
      .poll(() => gateway.logged.some((line) => line.client === 'stock service' && line.deprecated))
      .toBe(isDeprecated);
  });

  it('collects the lookups of one turn, also after promise callbacks, and sends each id once', async () => {
    const { key } = await gateway.createKey();
    const client = await connect({ key });
    const before = await countRoundTrips();
    const pets = await Promise.all(
      Array.from({ length: 90 }, async (_, index) => {
        for (let hop = 0; hop < index % 9; hop++) await Promise.resolve();
        return client.get(1 + (index % 30));
      }),
    );
    expect(pets.map(({ id }) => id)).toEqual(Array.from({ length: 90 }, (_, index) => String(1 + (index % 30))));
    expect((await countRoundTrips()) - before).toBe(1);
    const { data } = await gateway.graphql('{ rateLimit { windows { limit remaining } } }', { key });
    expect(data.rateLimit.windows[0]).toEqual({ limit: 1_000, remaining: 1_000 - cost });
  });

  it('returns an animal or an error for each id', async () => {
    const client = await connect();
    const given = ['2', 404_404, DEEP, BigInt(DEEP), '007', 2 ** 53, 1.5, 2n ** 63n, 3, '2'] as const;
    const results = await client.loadMany(given);
    expect(results[0]).toEqual({ id: '2', name: 'Animal 2', categoryId: '3', status: 'SOLD' });
    expect(results[2]).toEqual({ id: DEEP, name: 'Deep', categoryId: '9223372036854775807', status: null });
    expect(results[3]).toEqual(results[2]);
    expect(results[9]).toEqual(results[0]);
    expect(results.map((result) => (isPetError(result) ? result.code : result.id))).toEqual([
      '2',
      'NOT_FOUND',
      DEEP,
      DEEP,
      ...Array<string>(4).fill('BAD_USER_INPUT'),
      '3',
      '2',
    ]);
    expect(results[1]).toMatchObject({
      message: 'There is no animal with id 404404.',
      error: { code: 'not_found', status: 404 },
      requestId: expect.stringMatching(/.+/) as string,
    });
    expect((results[5] as PetError).message).toContain('got 9007199254740992');
  });

  it('rejects a single lookup with its error', async () => {
    const client = await connect();
    await expect(client.get('4040')).rejects.toMatchObject({ name: 'PetError', code: 'NOT_FOUND' });
    await expect(client.get('x')).rejects.toMatchObject({ code: 'BAD_USER_INPUT' });
    expect(await client.loadMany([])).toEqual([]);
  });

  it('lists animals, filtered by status', async () => {
    const client = await connect();
    const ids = (pets: readonly Pet[]): string[] => pets.map(({ id }) => id);
    expect(ids(await client.list())).toEqual(Array.from({ length: 20 }, (_, index) => String(index + 1)));
    expect(await client.list({ limit: 1 })).toEqual([{ id: '1', name: 'Animal 1', categoryId: '2', status: null }]);
    expect(ids(await client.list({ status: 'SOLD', limit: 3 }))).toEqual(['2', '4', '6']);
    await expect(client.list({ limit: 500 })).rejects.toMatchObject({ code: 'BAD_USER_INPUT', path: ['_0'] });
  });

  it('adds an animal once for each idempotency key', async () => {
    const client = await connect();
    const pet = { name: 'Rex', categoryId: BigInt(DEEP), status: 'PENDING' } as const;
    const added = await client.add(pet, { idempotencyKey: `order 7 ${mode}`.replaceAll(' ', '-') });
    expect(added).toEqual({ id: expect.stringMatching(/^\d+$/), name: 'Rex', categoryId: DEEP, status: 'PENDING' });
    expect(await client.add(pet, { idempotencyKey: `order-7-${mode}` })).toEqual(added);
    const others = await Promise.all([client.add(pet), client.add(pet)]);
    expect(new Set([added.id, ...others.map(({ id }) => id)]).size).toBe(3);
    await expect(client.add({ ...pet, categoryId: 0.5 })).rejects.toMatchObject({
      code: 'BAD_USER_INPUT',
      message: expect.stringMatching(/^categoryId must be a 64-bit integer.*got 0\.5\.$/) as string,
    });
    await expect(client.add({ name: ' ', categoryId: 1 })).rejects.toMatchObject({ code: 'BAD_USER_INPUT' });
  });

  it('looks up animals that are far apart, in any order, at both ends of int64', async () => {
    const ends = [-(2n ** 63n), 2n ** 63n - 1n];
    await gateway.sql(
      'INSERT INTO pets (id, name, category_id) SELECT unnest($1::bigint[]), $2, 1 ON CONFLICT DO NOTHING',
      [ends.map(String), 'End'],
    );
    const client = await connect();
    const ids = [ends[1] as bigint, 900, 1, 101, ends[0] as bigint, 100, DEEP, 2n ** 63n - 2n, 500, 0];
    const results = await client.loadMany(ids);
    expect(results.map((result) => (isPetError(result) ? result.code : result.name))).toEqual([
      ...['End', 'Animal 900', 'Animal 1', 'Animal 101', 'End', 'Animal 100', 'Deep', 'NOT_FOUND', 'Animal 500'],
      'NOT_FOUND',
    ]);
    await gateway.sql(`DELETE FROM pets WHERE name = 'End'`);
  });

  it('walks all animals, each once, and asks for a page only when it is reached', async () => {
    const client = await connect();
    const before = await countRoundTrips();
    const seen: string[] = [];
    for await (const { id } of client.pets()) {
      seen.push(id);
      if (Number(id) % 250 === 0) expect((await countRoundTrips()) - before).toBe(Math.ceil(Number(id) / 100));
    }
    const upTo1000 = Array.from({ length: 1_000 }, (_, index) => String(index + 1));
    expect(seen.slice(0, 1_000)).toEqual(upTo1000);
    expect(seen.at(-1)).toBe(DEEP);
    expect(new Set(seen).size).toBe(seen.length);
    const sold: string[] = [];
    for await (const { id } of client.pets({ status: 'SOLD', after: 500n })) if (sold.push(id) === 150) break;
    expect(sold).toEqual(upTo1000.filter((id) => Number(id) > 500 && Number(id) % 2 === 0).slice(0, 150));
    expect((await client.list({ after: '7', limit: 2 })).map(({ id }) => id)).toEqual(['8', '9']);
    await expect(client.list({ after: 2 ** 53 })).rejects.toMatchObject({ code: 'BAD_USER_INPUT' });
  });

  it('ends a walk with the reason of its signal, also within a page', async () => {
    const client = await connect();
    const controller = new AbortController();
    const seen: string[] = [];
    const walk = async (): Promise<void> => {
      for await (const { id } of client.pets({ signal: controller.signal }))
        if (seen.push(id) === 150) controller.abort('enough');
    };
    await expect(walk()).rejects.toBe('enough');
    expect(seen).toHaveLength(150);
  });

  it('fails every lookup with UNAUTHENTICATED after one request if the key is invalid', async () => {
    const key = 'pets_unknown';
    const client = await connect({ key });
    const before = await countRoundTrips();
    const results = await client.loadMany(Array.from({ length: 300 }, (_, index) => index + 1));
    expect(new Set(results.map((result) => isPetError(result) && result.code))).toEqual(new Set(['UNAUTHENTICATED']));
    expect((await countRoundTrips()) - before).toBe(1);
    expect(inspect(results, { depth: 9 })).not.toContain(key);
  });
});

describe('createPetClient', () => {
  const valid = { url: 'http://127.0.0.1:1/graphql', key: 'pets_key' };

  it.each([
    [{ url: 'animals' }, 'Invalid URL'],
    [{ url: 'ftp://127.0.0.1/graphql' }, 'url must be http or https'],
    [{ url: 'http://secret:secret@127.0.0.1/graphql' }, 'url must be http or https, without a user name'],
    [{ key: undefined as unknown as string }, 'key must be'],
    [{ key: '' }, 'key must be'],
    [{ key: 'secret\r\nX: y' }, 'key must be'],
    [{ clientName: 'App ✓' }, 'clientName must be printable ASCII'],
    [{ maxWaitMs: Number.NaN }, 'maxWaitMs must be at least 0, got NaN'],
    [{ timeoutMs: 0 }, 'timeoutMs must be at least 1, got 0'],
    [{ concurrency: 0 }, 'concurrency must be at least 1, got 0'],
  ])('rejects %o', (wrong, words) => {
    const create = (): PetClient => createPetClient({ ...valid, ...wrong });
    expect(create).toThrow(TypeError);
    expect(create).toThrow(words);
    expect(create).not.toThrow('secret');
  });

  it.each([
    ['"minute"; t=2; r=50', 'minute', 50],
    [String.raw`"x\";r=0;t=3600";r=50;t=2`, 'x";r=0;t=3600', 50],
  ])('reads limits in any valid form: %s', async (RateLimit, name, remaining) => {
    const onLimit = vi.fn();
    const fetch = () => Promise.resolve(Response.json({ data: { f0: null } }, { headers: { RateLimit } }));
    await createPetClient({ ...valid, fetch, onLimit })
      .list({ limit: 1 })
      .catch(() => undefined);
    expect(onLimit).toHaveBeenCalledWith([expect.objectContaining({ name, remaining })]);
  });

  it('looks up an animal once if a call has its id several times', async () => {
    const sent: unknown[] = [];
    const fetch: PetClientOptions['fetch'] = (_, { body }) => {
      const { variables } = JSON.parse(body as string) as { variables: Record<string, string> };
      sent.push(Object.values(variables));
      const pets = Object.values(variables).map((id, index) => [`_${index}`, { id }]);
      return Promise.resolve(Response.json({ data: Object.fromEntries(pets) as object }));
    };
    const results = await createPetClient({ ...valid, fetch }).loadMany([7, '7', 8, 7n]);
    expect(results.map((result) => isPetError(result) || result.id)).toEqual(['7', '7', '8', '7']);
    expect(sent).toEqual([['7', '8']]);
  });

  it('gets a lone animal from a list of one, after the id before', async () => {
    const pet = { id: '42', name: 'Bella', categoryId: '1', status: null };
    const sent: unknown[] = [];
    const fetch: PetClientOptions['fetch'] = (_, { body }) => {
      sent.push(JSON.parse(body as string));
      return Promise.resolve(Response.json({ data: { _0: [pet] } }));
    };
    expect(await createPetClient({ ...valid, fetch, getFromLists: true }).get(42)).toEqual(pet);
    const query = expect.stringContaining('_0:pets(after:$a0,limit:$n0)') as string;
    expect(sent).toEqual([{ query, variables: { a0: '41', n0: 1 } }]);
  });
});
