import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Int64 } from '../../src/pets/int64.js';
import { createMergingPetSource } from '../../src/pets/merging-pet-source.js';
import type { Call, PetSource } from '../../src/pets/pet-source.js';
import { startGateway, type Gateway } from '../support/gateway.js';

function call(signal = new AbortController().signal): Call {
  return { requestId: 'test', startedAt: performance.now(), signal };
}

/** A source that only tells what it was asked, and fails for the limits and ids named. */
function createRecordingSource(failing: { limit?: number; id?: string } = {}) {
  const asked: string[] = [];
  const source: PetSource = {
    list({ limit, status }) {
      asked.push(`list ${limit} ${status ?? ''}`.trim());
      if (limit === failing.limit) return Promise.reject(new Error('list failed'));
      return Promise.resolve([{ id: String(limit) as Int64, name: 'x', categoryId: '1' as Int64 }]);
    },
    findMany(ids) {
      asked.push(`find ${ids.join()}`);
      return Promise.resolve(
        ids.map((id) =>
          id === failing.id ? new Error('lookup failed') : { id, name: `Animal ${id}`, categoryId: '1' as Int64 },
        ),
      );
    },
    add: () => Promise.reject(new Error('not asked here')),
  };
  return { source, asked };
}

const ids = (...numbers: number[]) => numbers.map((number) => String(number) as Int64);

describe('merging the reads of one turn of the event loop', () => {
  it('asks for equal lists once and for all lookups at once', async () => {
    const { source, asked } = createRecordingSource();
    const merging = createMergingPetSource(source);
    const [first, second, other, found, more] = await Promise.all([
      merging.list({ limit: 5 }, call()),
      merging.list({ limit: 5 }, call()),
      merging.list({ limit: 5, status: 'sold' }, call()),
      merging.findMany(ids(1, 2), call()),
      merging.findMany(ids(2, 3, 2), call()),
    ]);
    expect(asked).toEqual(['list 5', 'list 5 sold', 'find 1,2,3']);
    expect(second).toBe(first);
    expect(other).not.toBe(first);
    expect(found.map((pet) => (pet as { id: string }).id)).toEqual(['1', '2']);
    expect(more.map((pet) => (pet as { id: string }).id)).toEqual(['2', '3', '2']);
  });

  it('joins nothing that has been dispatched', async () => {
    const { source, asked } = createRecordingSource();
    const merging = createMergingPetSource(source);
    await merging.list({ limit: 5 }, call());
    await merging.list({ limit: 5 }, call());
    expect(asked).toEqual(['list 5', 'list 5']);
  });

  it('fails only those who asked for what failed', async () => {
    const { source } = createRecordingSource({ limit: 7, id: '2' });
    const merging = createMergingPetSource(source);
    const [bad, good, found] = await Promise.allSettled([
      merging.list({ limit: 7 }, call()),
      merging.list({ limit: 8 }, call()),
      merging.findMany(ids(1, 2), call()),
    ]);
    expect(bad.status).toBe('rejected');
    expect(good.status).toBe('fulfilled');
    expect(found.status === 'fulfilled' && found.value.map((pet) => pet instanceof Error)).toEqual([false, true]);
  });

  it('leaves out who has gone away, and nobody else', async () => {
    const { source, asked } = createRecordingSource();
    const merging = createMergingPetSource(source);
    const gone = new AbortController();
    const [cancelled, alone, stays] = [
      merging.findMany(ids(1), call(gone.signal)),
      merging.list({ limit: 3 }, call(gone.signal)),
      merging.findMany(ids(2), call()),
    ];
    gone.abort();
    await expect(cancelled).rejects.toThrow();
    await expect(alone).rejects.toThrow();
    expect(await stays).toHaveLength(1);
    expect(asked).toEqual(['find 2']);
  });
});

describe('reads of merged questions, under concurrent load', () => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway('server');
    ({ key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1_000_000, perDay: 1_000_000 } }));
  });
  afterAll(() => gateway.close());

  it('see what was added before they came, ten thousand times over forty connections', async () => {
    const pairs = 10_000;
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
    await Promise.all(Array.from({ length: 40 }, work));
    expect(seen).toBe(pairs);
  }, 120_000);
});
