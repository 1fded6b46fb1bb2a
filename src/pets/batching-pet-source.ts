import { createBatcher, type Batcher } from '../batcher.js';
import { createBoundedCache } from '../bounded-cache.js';
import { StoreError } from '../errors.js';
import type { Int64 } from './int64.js';
import type { NewPet, Pet, PetQuery } from './pet.js';
import { CallCancelled, createCall, WHOLE, type BulkPetSource, type Call, type PetSource } from './pet-source.js';

interface Question {
  readonly call: Call;
}

type ListRequest = Question & Pick<PetQuery, 'limit'>;
type Lister = Batcher<ListRequest, readonly Pet[]>;

/** An evicted one still serves those that wait for it. */
const MAX_LISTERS = 100;

/**
 * Turns concurrent calls into few statements: lists with the same status that start after the same id become one list as
 * long as the longest, lookups one lookup, additions one addition.
 */
export function createBatchingPetSource(source: BulkPetSource): PetSource {
  const options = { isBlocking: source.isBlocking, findCancellation };
  const listers = createBoundedCache<Lister>(MAX_LISTERS);
  const find = createBatcher({ ...options, run: findBatch, sizeOf: ({ ids }) => ids.length });
  const add = createBatcher({ ...options, run: addBatch });

  return {
    list({ limit, status, after }, call) {
      const key = `${status} ${after}`;
      let lister = listers.get(key);
      if (!lister) listers.set(key, (lister = createLister(status, after)));
      return lister({ limit, call });
    },
    findMany: (ids, call) => find({ ids, call }),
    // An addition with an idempotency key needs a statement of its own.
    add: (newPet, call, key) => (key ? source.add(newPet, call, key) : add({ newPet, call })),
  };

  function createLister(status: PetQuery['status'], after: PetQuery['after']): Lister {
    return createBatcher({
      ...options,
      async run(lists: readonly ListRequest[]) {
        const limit = Math.max(...lists.map((list) => list.limit));
        const pets = await source.list({ limit, status, after }, toSharedCall(lists));
        return lists.map((list) => cut(pets, list.limit));
      },
      // One list answers any number of readers.
      sizeOf: () => 0,
    });
  }

  async function findBatch(lookups: readonly (Question & { readonly ids: readonly Int64[] })[]) {
    const ids: Int64[] = [];
    for (const lookup of lookups) ids.push(...lookup.ids);
    const found = await source.findMany(ids, toSharedCall(lookups));
    return lookups.map(() => found);
  }

  async function addBatch(additions: readonly (Question & { readonly newPet: NewPet })[]) {
    const call = toSharedCall(additions);
    const newPets = additions.map(({ newPet }) => newPet);
    try {
      if (newPets.length > 1) return await source.addMany(newPets, call);
    } catch (error) {
      if (error instanceof StoreError) throw error;
      // The database rejected one animal, and added none.
    }
    return Promise.all(newPets.map((newPet) => source.add(newPet, call).catch((error: unknown) => error as Error)));
  }
}

function cut(pets: readonly Pet[], limit: number): readonly Pet[] {
  if (pets.length <= limit) return pets;
  // Not enumerable: the list equals one that is not cut.
  return Object.defineProperty(pets.slice(0, limit), WHOLE, { value: pets });
}

function findCancellation({ call }: Question): Error | undefined {
  return call.isCancelled ? new CallCancelled() : undefined;
}

/** The call of a batch: it is not cancelled if one of several clients disconnects. */
function toSharedCall(waiting: readonly Question[]): Call {
  const { call } = waiting[0] as Question;
  return waiting.length === 1 ? call : createCall(call.requestId, call.startedAt);
}
