import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPetClient, isPetError, type NewPet, type PetClient, type PetClientOptions } from '../src/index.js';
import { startGateway, startProxyBefore, type Gateway } from '../../../test/support/gateway.js';
import { startShortWindowStore } from '../../../test/support/short-window-store.js';

/** 10,000 take about ten minutes, because the key may add 1,000 a minute. */
const IMPORTED = Number(process.env.IMPORTED_ANIMALS ?? 300);
const IMPORT_MS = 60_000 + (IMPORTED / 1_000) * 61_000;
const PACKAGE = fileURLToPath(new URL('..', import.meta.url));

const animals = (count: number): NewPet[] =>
  Array.from({ length: count }, (_, index) => ({ name: `Animal ${index}`, categoryId: 1 }));
const namesOf = (results: readonly unknown[]): unknown[] =>
  results.map((result) => (isPetError(result) ? result.code : (result as NewPet).name));

describe('addAll', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway('embedded');
  });
  afterAll(() => gateway.close());

  async function connect(perMinute = 10_000, options: Partial<PetClientOptions> = {}) {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute, perDay: 100_000 } });
    const statuses: number[] = [];
    const client: PetClient = createPetClient({
      url: `${gateway.url}/graphql`,
      key,
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        statuses.push(response.status);
        return response;
      },
      ...options,
    });
    return { client, statuses, key };
  }

  const stored = async (): Promise<string[]> =>
    (await gateway.sql('SELECT name FROM pets ORDER BY id')).map(({ name }) => name as string);
  const clear = () => gateway.sql('DELETE FROM pets');

  it('adds animals in their order, twenty in a request, and reports its progress', async () => {
    await clear();
    const { client, statuses } = await connect();
    const progress: number[] = [];
    const results = await client.addAll(animals(45), { name: 'order', onProgress: ({ done }) => progress.push(done) });
    const expected = animals(45).map(({ name }) => name);
    expect([namesOf(results), await stored()]).toEqual([expected, expected]);
    expect([statuses, progress]).toEqual([
      [200, 200, 200],
      [20, 40, 45],
    ]);
  });

  it('takes animals from a generator only as fast as it adds them', async () => {
    await clear();
    const { client } = await connect();
    let taken = 0;
    async function* generate() {
      for (const animal of animals(50)) {
        taken += 1;
        yield await Promise.resolve(animal);
      }
    }
    const ahead: number[] = [];
    await client.addAll(generate(), { name: 'slow', onProgress: ({ done }) => ahead.push(taken - done) });
    expect([ahead, (await stored()).length]).toEqual([[0, 0, 0], 50]);
  });

  it('returns the error of each animal that is refused, and adds the others', async () => {
    await clear();
    const { client } = await connect();
    const pets = animals(45);
    pets[3] = { name: ' ', categoryId: 1 };
    pets[4] = { name: 'Rounded', categoryId: 2 ** 60 };
    pets[44] = { name: '', categoryId: 1 };
    // As JavaScript may pass them.
    pets[5] = { name: 5 as unknown as string, categoryId: 1 };
    pets[6] = { categoryId: 1 } as NewPet;
    pets[7] = { name: 'Sold', categoryId: 1, status: 'sold' as 'SOLD' };
    // No request takes this.
    pets[8] = { name: 'x'.repeat(1_200_000), categoryId: 1 };
    pets[9] = { name: '🐕'.repeat(255), categoryId: 1 };
    const refused = [3, 4, 5, 6, 7, 8, 44];
    const expected = pets.map(({ name }, index) => (refused.includes(index) ? 'BAD_USER_INPUT' : name));
    expect(namesOf(await client.addAll(pets, { name: 'refused' }))).toEqual(expected);
    // Corrected, they are added, and the others are not added twice.
    const corrected = animals(45).with(9, pets[9]);
    expect(namesOf(await client.addAll(corrected, { name: 'refused' }))).toEqual(corrected.map(({ name }) => name));
    expect((await stored()).length).toBe(45);
  });

  it('adds nothing twice under the same name, however the requests are cut', async () => {
    await clear();
    const { key } = await connect(45);
    const url = `${gateway.url}/graphql`;
    await gateway.graphql('{ pets(limit: 1) { id } }', { key });
    // 44 are left: the third request has room for 4 of 20.
    const impatient = createPetClient({ url, key, maxWaitMs: 0 });
    const progress: number[] = [];
    const onProgress = ({ done }: { readonly done: number }) => progress.push(done);
    const cut = impatient.addAll(animals(60), { name: 'cut', onProgress });
    await expect(cut).rejects.toMatchObject({ code: 'RATE_LIMITED' });
    expect((await stored()).length).toBe(44);
    expect(progress).toEqual([20, 40, 44]);
    await gateway.sql('UPDATE api_keys SET per_minute = 1000 WHERE per_minute = 45');
    await expect
      .poll(async () => (await gateway.graphql('{ __typename }', { key })).headers.get('ratelimit-policy'))
      .toContain('"minute";q=1000');
    const results = await createPetClient({ url, key }).addAll(animals(60), { name: 'cut', skip: 27 });
    expect(namesOf(results)).toEqual(
      animals(60)
        .slice(27)
        .map(({ name }) => name),
    );
    expect(await stored()).toEqual(animals(60).map(({ name }) => name));
  });

  it('adds each animal once if two calls of the same name run at the same time', async () => {
    await clear();
    const { client } = await connect();
    const calls = [1, 2].map(() => client.addAll(animals(30), { name: 'twice' }));
    const [first, second] = await Promise.all(calls);
    expect(namesOf(first as unknown[])).toEqual(animals(30).map(({ name }) => name));
    expect(second).toEqual(first);
    expect((await stored()).length).toBe(30);
  });

  it('refuses another animal in the place of one that it has added', async () => {
    await clear();
    const { client } = await connect();
    await client.addAll(animals(3), { name: 'taken' });
    const results = await client.addAll([{ name: 'Other', categoryId: 1 }, ...animals(3).slice(1)], { name: 'taken' });
    expect(namesOf(results)).toEqual(['BAD_USER_INPUT', 'Animal 1', 'Animal 2']);
    expect((await stored()).length).toBe(3);
  });

  it('ends with any other error, with its signal, and for a name or skip that is not valid', async () => {
    const { client } = await connect();
    const url = `${gateway.url}/graphql`;
    const unknown = createPetClient({ url, key: 'unknown' });
    await expect(unknown.addAll(animals(3), { name: 'a' })).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
    const controller = new AbortController();
    const { signal } = controller;
    const onProgress = () => controller.abort(new Error('enough'));
    await expect(client.addAll(animals(100), { name: 'b', signal, onProgress })).rejects.toThrow('enough');
    for (const name of ['a b', '', 'a'.repeat(241)])
      await expect(client.addAll(animals(3), { name })).rejects.toMatchObject({ code: 'BAD_USER_INPUT' });
    for (const skip of [-1, NaN])
      await expect(client.addAll(animals(3), { name: 'a', skip })).rejects.toThrow(TypeError);
    const unsafe = createPetClient({ url, key: 'any', idempotencyKeys: false });
    await expect(unsafe.addAll(animals(3), { name: 'a' })).rejects.toMatchObject({ code: 'BAD_USER_INPUT' });
  });

  it(`adds ${IMPORTED} animals with a business key without a 429`, { timeout: IMPORT_MS }, async () => {
    await clear();
    const { key } = await gateway.createKey({ plan: 'business' });
    const { client, statuses } = await connect(1, { key });
    const startedAt = performance.now();
    const results = await client.addAll(animals(IMPORTED), { name: 'import' });
    const seconds = (performance.now() - startedAt) / 1_000;
    console.log(`${IMPORTED} animals took ${Math.round(seconds)} s`);
    // 10,000 need nine more windows, 1,000 none.
    expect(seconds).toBeLessThanOrEqual(Math.max(66, (IMPORTED / 10_000) * 660));
    expect(results.filter(isPetError)).toEqual([]);
    expect([new Set(statuses), (await stored()).length]).toEqual([new Set([200]), IMPORTED]);
  });

  it(`adds ${IMPORTED} animals once if it is killed and runs again`, { timeout: 2 * IMPORT_MS }, async () => {
    await clear();
    const { key } = await gateway.createKey({ plan: 'business' });
    // It prints each request before the response arrives.
    const program = `import { createPetClient } from 'animal-store-client';
      const [url, key, count] = process.argv.slice(1);
      const log = (url, init) => (console.log('sent'), fetch(url, init));
      const pets = Array.from({ length: count }, (_, index) => ({ name: 'Animal ' + index, categoryId: 1 }));
      await createPetClient({ url, key, fetch: log }).addAll(pets, { name: 'import' });`;
    const start = () => {
      const args = ['--input-type=module', '--eval', program, `${gateway.url}/graphql`, key, String(IMPORTED)];
      return spawn(process.execPath, args, { cwd: PACKAGE, stdio: ['ignore', 'pipe', 'inherit'] });
    };
    const first = start();
    let requests = 0;
    first.stdout.on('data', (data: Buffer) => {
      requests += data.toString().split('\n').length - 1;
      if (requests > IMPORTED / 40) first.kill('SIGKILL');
    });
    expect((await once(first, 'exit'))[1]).toBe('SIGKILL');
    const before = (await stored()).length;
    expect([before > 0, before < IMPORTED]).toEqual([true, true]);
    const second = start();
    second.stdout.resume();
    expect((await once(second, 'exit'))[0]).toBe(0);
    expect((await stored()).length).toBe(IMPORTED);
    expect(new Set(await stored()).size).toBe(IMPORTED);
  });
});

it('addAll adds those first that have failed', async () => {
  const sent: number[][] = [];
  const fetch: PetClientOptions['fetch'] = (_, { body }) => {
    const { variables } = JSON.parse(body as string) as { variables: Record<string, NewPet> };
    const names = Object.values(variables).map(({ name }) => Number(name.replace('Animal ', '')));
    if (sent.push(names) === 2) return Promise.resolve(new Response('', { status: 503 }));
    const tooLarge = { errors: [{ message: 'No.', extensions: { code: 'OPERATION_TOO_LARGE' } }] };
    const pets = names.map((id, index) => [`_${index}`, { id }]);
    return Promise.resolve(Response.json(sent.length === 1 ? tooLarge : { data: Object.fromEntries(pets) as object }));
  };
  await createPetClient({ url: 'http://store.example/graphql', key: 'k', fetch }).addAll(animals(4), { name: 'order' });
  expect(sent).toEqual([
    [0, 1, 2, 3],
    [0, 1],
    [0, 1],
    [2, 3],
  ]);
});

describe('addAll through windows that open again', () => {
  it('sends nothing that they would refuse, and the same idempotency keys', { timeout: 60_000 }, async () => {
    const keysWith = async (limit: number, skip?: number): Promise<unknown[]> => {
      const store = await startShortWindowStore({ limit, seconds: 1 });
      const gateway = await startProxyBefore(store.url);
      try {
        const client = createPetClient({ url: `${gateway.url}/graphql`, key: 'a', maxWaitMs: 3_000 });
        const results = await client.addAll(animals(25), { name: 'windows', skip });
        expect(results.filter(isPetError)).toEqual([]);
        expect(store.refusedOf('a')).toBe(0);
        const adds = store.seen.filter(({ method }) => method === 'POST');
        return adds.map(({ headers, body }) => [(JSON.parse(body) as NewPet).name, headers['idempotency-key']]).sort();
      } finally {
        await gateway.close();
        await store.close();
      }
    };
    const keys = await keysWith(1_000);
    expect(new Set(keys.map(String)).size).toBe(25);
    expect(await keysWith(7)).toEqual(keys);
    expect(await keysWith(1_000, 13)).toEqual(keys.filter((one) => Number(/\d+/.exec(String(one))?.[0]) >= 13));
  });

  it('waits by Retry-After if another client has used up what was left, and adds each animal once', async () => {
    const store = await startShortWindowStore({ limit: 30, seconds: 5 });
    const gateway = await startProxyBefore(store.url);
    try {
      const refusals: [number, string | null][] = [];
      const log: PetClientOptions['fetch'] = async (url, init) => {
        const response = await fetch(url, init);
        if (response.status !== 200) refusals.push([response.status, response.headers.get('retry-after')]);
        return response;
      };
      const client = createPetClient({ url: `${gateway.url}/graphql`, key: 'a', fetch: log });
      async function* generate() {
        yield* animals(20);
        const lists = Array.from({ length: 10 }, (_, index) => `a${index}: pets(limit: ${index + 1}) { id }`);
        const { status } = await gateway.graphql(`{ ${lists.join(' ')} }`, { key: 'a' });
        expect(status).toBe(200);
        yield* animals(25).slice(20);
      }
      const names = animals(25).map(({ name }) => name);
      const results = await client.addAll(generate(), { name: 'shared' });
      expect(results.filter(isPetError)).toEqual([]);
      expect(refusals).toEqual([[429, expect.stringMatching(/^[1-5]$/)]]);
      const adds = store.seen.filter(({ method }) => method === 'POST');
      expect(adds.map(({ body }) => (JSON.parse(body) as NewPet).name).sort()).toEqual(names.sort());
    } finally {
      await gateway.close();
      await store.close();
    }
  });
});
