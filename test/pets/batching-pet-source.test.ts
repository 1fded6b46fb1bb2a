import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Int64 } from '../../src/pets/int64.js';
import { createBatchingPetSource } from '../../src/pets/batching-pet-source.js';
import type { NewPet, Pet } from '../../src/pets/pet.js';
import { createCall, type BulkPetSource, type Call } from '../../src/pets/pet-source.js';
import { createCancellableCall } from '../support/calls.js';
import { startGateway, type Gateway } from '../support/gateway.js';

function call(signal?: AbortSignal): Call {
  return signal ? createCancellableCall(signal) : createCall('test');
}

/** A source that records its calls and fails one of them. If it `waits`, it answers when `release` is called. */
function createRecordingSource({ failing, waits = false }: { failing?: string; waits?: boolean } = {}) {
  const asked: string[] = [];
  const held: (() => void)[] = [];
  const toPet = (id: Int64): Pet => ({ id, name: `Animal ${id}`, categoryId: '1' as Int64 });
  async function answer<Answer>(question: string, make: () => Answer): Promise<Answer> {
    asked.push(question);
    if (waits) await new Promise<void>((resolve) => held.push(resolve));
    if (question === failing) throw new Error(`${question} failed`);
    return make();
  }
  const source: BulkPetSource = {
    list: ({ limit, status, after }) =>
      answer(['list', limit, status, after && `after ${after}`].filter(Boolean).join(' '), () =>
        Array.from({ length: limit }, (_, index) => toPet(String(index + 1 + Number(after ?? 0)) as Int64)),
      ),
    findMany: (wanted) => answer(`find ${wanted.join()}`, () => new Map(wanted.map((id) => [id, toPet(id)]))),
    add: ({ name }) => answer(`add ${name}`, () => ({ ...toPet('100' as Int64), name })),
    addMany: (newPets) =>
      answer(`add ${newPets.map(({ name }) => name).join()}`, () =>
        newPets.map((newPet, index) => ({ ...newPet, id: String(index + 100) as Int64 })),
      ),
  };
  return { source, asked, release: () => held.splice(0).forEach((resolve) => resolve()) };
}

const ids = (...numbers: number[]) => numbers.map((number) => String(number) as Int64);

const newPet = (name: string): NewPet => ({ name, categoryId: '1' as Int64 });
const listIds = (pets: readonly Pet[]) => pets.map(({ id }) => Number(id));

describe('calls that arrive in one turn of the event loop', () => {
  it('become one list per status, with the largest limit, and one lookup', async () => {
    const { source, asked } = createRecordingSource();
    const batching = createBatchingPetSource(source);
    const [three, five, same, sold, found, more] = await Promise.all([
      batching.list({ limit: 3 }, call()),
      batching.list({ limit: 5 }, call()),
      batching.list({ limit: 5 }, call()),
      batching.list({ limit: 2, status: 'sold' }, call()),
      batching.findMany(ids(1, 2), call()),
      batching.findMany(ids(2, 3, 2), call()),
    ]);
    expect(asked).toEqual(['list 5', 'list 2 sold', 'find 1,2,2,3,2']);
    expect([three, five, same, sold].map(listIds)).toEqual([
      [1, 2, 3],
      [1, 2, 3, 4, 5],
      [1, 2, 3, 4, 5],
      [1, 2],
    ]);
    expect(ids(1, 2).map((id) => (found.get(id) as Pet).id)).toEqual(['1', '2']);
    expect(ids(2, 3).map((id) => (more.get(id) as Pet).id)).toEqual(['2', '3']);
  });

  it('become one list per id that they start after', async () => {
    const { source, asked } = createRecordingSource();
    const batching = createBatchingPetSource(source);
    const [seven, nine] = ids(7, 9);
    const pages = await Promise.all([
      batching.list({ limit: 2, after: seven }, call()),
      batching.list({ limit: 3, after: seven }, call()),
      batching.list({ limit: 2, after: nine }, call()),
      batching.list({ limit: 2, status: 'sold', after: nine }, call()),
      batching.list({ limit: 1 }, call()),
    ]);
    expect(asked.sort()).toEqual(['list 1', 'list 2 after 9', 'list 2 sold after 9', 'list 3 after 7']);
    expect(pages.map(listIds)).toEqual([[8, 9], [8, 9, 10], [10, 11], [10, 11], [1]]);
  });

  it('get their lists, however many different ones are asked for at once', async () => {
    const { source } = createRecordingSource();
    const batching = createBatchingPetSource(source);
    const starts = Array.from({ length: 1_000 }, (_, n) => n);
    const pages = await Promise.all(starts.map((n) => batching.list({ limit: 1, after: String(n) as Int64 }, call())));
    expect(pages.flatMap(listIds)).toEqual(starts.map((n) => n + 1));
  });

  it('add all animals in one step, and return to each caller its own animal', async () => {
    const { source, asked } = createRecordingSource();
    const batching = createBatchingPetSource(source);
    const added = await Promise.all(['a', 'b', 'c'].map((name) => batching.add(newPet(name), call())));
    expect(asked).toEqual(['add a,b,c']);
    expect(added.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
    expect(new Set(added.map(({ id }) => id)).size).toBe(3);
  });

  it('add the others if the database rejects one animal', async () => {
    const { source, asked } = createRecordingSource({ failing: 'add a,b,c' });
    const refusing: BulkPetSource = {
      ...source,
      add: (animal, ...rest) =>
        animal.name === 'b' ? Promise.reject(new Error('refused by a trigger')) : source.add(animal, ...rest),
    };
    const batching = createBatchingPetSource(refusing);
    const outcomes = await Promise.allSettled(['a', 'b', 'c'].map((name) => batching.add(newPet(name), call())));
    expect(asked).toEqual(['add a,b,c', 'add a', 'add c']);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  });

  it('never join a batch that has been dispatched', async () => {
    const { source, asked } = createRecordingSource();
    const batching = createBatchingPetSource(source);
    await batching.list({ limit: 5 }, call());
    await batching.list({ limit: 5 }, call());
    expect(asked).toEqual(['list 5', 'list 5']);
  });

  it('reject only the callers of a failed batch', async () => {
    const { source } = createRecordingSource({ failing: 'list 7 sold' });
    const batching = createBatchingPetSource(source);
    const outcomes = await Promise.allSettled([
      batching.list({ limit: 7, status: 'sold' }, call()),
      batching.list({ limit: 7, status: 'pending' }, call()),
      batching.findMany(ids(1, 2), call()),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
  });

  it('leave out only cancelled calls', async () => {
    const { source, asked } = createRecordingSource();
    const batching = createBatchingPetSource(source);
    const gone = new AbortController();
    const [cancelled, alone, stays] = [
      batching.findMany(ids(1), call(gone.signal)),
      batching.list({ limit: 3 }, call(gone.signal)),
      batching.findMany(ids(2), call()),
    ];
    gone.abort();
    await expect(cancelled).rejects.toThrow();
    await expect(alone).rejects.toThrow();
    expect((await stays).has('2' as Int64)).toBe(true);
    expect(asked).toEqual(['find 2']);
  });
});

describe('while a batch is running', () => {
  it('later calls wait and become one batch when it ends', async () => {
    const { source, asked, release } = createRecordingSource({ waits: true });
    const batching = createBatchingPetSource(source);
    const reads = [batching.findMany(ids(1), call())];
    await new Promise(setImmediate);
    reads.push(batching.findMany(ids(2), call()), batching.findMany(ids(3), call()));
    expect(asked).toEqual(['find 1']);
    release();
    await expect.poll(() => asked.slice(1)).toEqual(['find 2,3']);
    release();
    expect((await Promise.all(reads)).map((found, index) => found.has(String(index + 1) as Int64))).toEqual([
      true,
      true,
      true,
    ]);
  });

  it('no call waits long for a batch that does not end', async () => {
    const { source, asked, release } = createRecordingSource({ waits: true });
    const batching = createBatchingPetSource(source);
    const reads: Promise<unknown>[] = [];
    for (const id of [1, 2, 3]) {
      reads.push(batching.findMany(ids(id), call()));
      await expect.poll(() => asked.length).toBe(id);
    }
    release();
    await Promise.all(reads);
  });

  it('calls of another kind or with another status do not wait', async () => {
    const { source, asked, release } = createRecordingSource({ waits: true });
    const batching = createBatchingPetSource(source);
    const questions: Promise<unknown>[] = [batching.list({ limit: 1 }, call())];
    await new Promise(setImmediate);
    questions.push(batching.list({ limit: 3, status: 'sold' }, call()), batching.add(newPet('a'), call()));
    await new Promise(setImmediate);
    expect(asked).toEqual(['list 1', 'list 3 sold', 'add a']);
    release();
    await Promise.all(questions);
  });
});

describe('batched reads under concurrent load', () => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway('server');
    ({ key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1_000_000, perDay: 1_000_000 } }));
  });
  afterAll(() => gateway.close());

  it('return all animals added before them, over thirty connections', async () => {
    const pairs = Number(process.env.READS_AFTER_ADDS ?? 1_000);
    let next = 0;
    let seen = 0;
    async function work(): Promise<void> {
      while (next < pairs) {
        const name = `animal ${next++}`;
        const added = await gateway.graphql(
          'mutation($n: String!) { addPet(input: { name: $n, categoryId: 1 }) { id } }',
          {
            key,
            variables: { n: name },
          },
        );
        const { id } = added.data.addPet;
        const read = await gateway.graphql('query($id: ID!) { pet(id: $id) { name } }', { key, variables: { id } });
        if (read.data.pet?.name === name) seen += 1;
      }
    }
    // The scheduler never refuses this few concurrent requests, even on a busy machine.
    await Promise.all(Array.from({ length: 30 }, work));
    expect(seen).toBe(pairs);
  });
});
