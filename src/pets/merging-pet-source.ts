import type { Int64 } from './int64.js';
import type { Pet, PetQuery } from './pet.js';
import type { Call, PetSource } from './pet-source.js';

/** Lookups of one question at the most, so that one statement stays small. */
const MAX_LOOKUPS = 1_000;

interface Waiting<T> {
  readonly call: Call;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Merges the reads that arrive in the same turn of the event loop: equal lists become one question, all lookups another.
 * Nothing is joined that has been dispatched, so a read always sees what was added before it came.
 *
 * Only for sources that answer every caller alike.
 */
export function createMergingPetSource(source: PetSource): PetSource {
  let lists = new Map<string, { readonly query: PetQuery; readonly waiting: Waiting<readonly Pet[]>[] }>();
  let lookups: (Waiting<readonly (Pet | Error | undefined)[]> & { readonly ids: readonly Int64[] })[] = [];
  let isScheduled = false;

  return {
    list: (query, call) =>
      new Promise((resolve, reject) => {
        const key = `${query.limit} ${query.status ?? ''}`;
        const asked = lists.get(key);
        const reader = { call, resolve, reject };
        if (asked) asked.waiting.push(reader);
        else lists.set(key, { query, waiting: [reader] });
        schedule();
      }),
    findMany: (ids, call) =>
      new Promise((resolve, reject) => {
        lookups.push({ ids, call, resolve, reject });
        schedule();
      }),
    add: (newPet, call, key) => source.add(newPet, call, key),
  };

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(dispatch);
  }

  function dispatch(): void {
    isScheduled = false;
    const dueLists = lists;
    const dueLookups = lookups;
    lists = new Map();
    lookups = [];
    for (const { query, waiting } of dueLists.values()) dispatchList(query, stillThere(waiting));
    dispatchLookups(stillThere(dueLookups));
  }

  function dispatchList(query: PetQuery, waiting: readonly Waiting<readonly Pet[]>[]): void {
    const [first] = waiting;
    if (!first) return;
    source.list(query, toSharedCall(waiting, first)).then(
      (pets) => waiting.forEach(({ resolve }) => resolve(pets)),
      (error: unknown) => waiting.forEach(({ reject }) => reject(error)),
    );
  }

  function dispatchLookups(waiting: typeof lookups): void {
    for (let start = 0; start < waiting.length;) {
      let end = start;
      let count = 0;
      do count += (waiting[end++] as (typeof waiting)[number]).ids.length;
      while (end < waiting.length && count + (waiting[end] as (typeof waiting)[number]).ids.length <= MAX_LOOKUPS);
      ask(waiting.slice(start, end));
      start = end;
    }
  }

  function ask(group: typeof lookups): void {
    const [first] = group;
    if (!first) return;
    const ids = group.length === 1 ? first.ids : [...new Set(group.flatMap((reader) => reader.ids))];
    source.findMany(ids, toSharedCall(group, first)).then(
      (pets) => {
        if (group.length === 1) {
          first.resolve(pets);
          return;
        }
        const found = new Map(ids.map((id, index) => [id, pets[index]]));
        for (const reader of group) reader.resolve(reader.ids.map((id) => found.get(id)));
      },
      (error: unknown) => group.forEach(({ reject }) => reject(error)),
    );
  }
}

/** Takes out the readers whose clients have gone away, and tells them. */
function stillThere<T extends Waiting<never>>(waiting: readonly T[]): T[] {
  return waiting.filter(({ call, reject }) => {
    if (call.signal.aborted) reject(call.signal.reason);
    return !call.signal.aborted;
  });
}

const NEVER = new AbortController().signal;

/** Nobody's going away ends a question that others wait for too. */
function toSharedCall(waiting: readonly Waiting<never>[], { call }: Waiting<never>): Call {
  return waiting.length === 1 ? call : { ...call, signal: NEVER };
}
