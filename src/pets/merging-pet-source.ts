import { StoreError } from '../errors.js';
import { joinSpans } from '../observability/tracing.js';
import type { Int64 } from './int64.js';
import type { NewPet, Pet, PetQuery } from './pet.js';
import { takeFirst } from './pet-prefix.js';
import { CallCancelled, NEVER_CANCELLED, type BulkPetSource, type Call, type PetSource } from './pet-source.js';

/** Lookups or additions of one statement at the most, so that it stays small. */
const MAX_MERGED = 1_000;
/**
 * While a statement is under way the next of its kind is held back, so that more can join it: for this long at the most, in
 * milliseconds, since one slow statement must not make others late.
 */
const MAX_HELD_MS = 20;

/** One reader or writer that waits for its part of a statement. */
interface Waiting<Answer> {
  readonly call: Call;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

type ListReader = Waiting<readonly Pet[]> & { readonly limit: number };
type LookupReader = Waiting<readonly (Pet | Error | undefined)[]> & { readonly ids: readonly Int64[] };
type Writer = Waiting<Pet> & { readonly newPet: NewPet };

/**
 * Merges what arrives in the same turn of the event loop, or while a statement of its kind is under way: lists of one
 * status become one list as long as the longest, lookups one lookup, additions one addition. Nothing is joined that
 * has been dispatched, so a read always sees what was added before it came.
 *
 * Only for sources that answer every caller alike.
 */
export function createMergingPetSource(source: BulkPetSource): PetSource {
  const lists = new Map<PetQuery['status'], Gate<ListReader>>();
  const lookups = new Gate<LookupReader>(({ ids }) => ids.length, findMerged);
  const additions = new Gate<Writer>(() => 1, addMerged);

  return {
    list: ({ limit, status }, call) =>
      new Promise((resolve, reject) => {
        gateOf(status).enter({ limit, call, resolve, reject });
      }),
    findMany: (ids, call) =>
      new Promise((resolve, reject) => {
        lookups.enter({ ids, call, resolve, reject });
      }),
    // What may not happen twice is asked for on its own.
    add: (newPet, call, key) =>
      key
        ? source.add(newPet, call, key)
        : new Promise((resolve, reject) => {
            additions.enter({ newPet, call, resolve, reject });
          }),
  };

  function gateOf(status: PetQuery['status']): Gate<ListReader> {
    let gate = lists.get(status);
    if (!gate) {
      // Any number of readers is one statement.
      gate = new Gate<ListReader>(
        () => 0,
        (readers) => listMerged(status, readers),
      );
      lists.set(status, gate);
    }
    return gate;
  }

  async function listMerged(status: PetQuery['status'], readers: readonly ListReader[]): Promise<void> {
    const limit = Math.max(...readers.map((reader) => reader.limit));
    const pets = await source.list({ limit, status }, toSharedCall(readers));
    for (const reader of readers) reader.resolve(takeFirst(pets, reader.limit));
  }

  async function findMerged(readers: readonly LookupReader[]): Promise<void> {
    const [first] = readers;
    const ids = first && readers.length === 1 ? first.ids : readers.flatMap((reader) => reader.ids);
    const found = await source.findAll(ids, toSharedCall(readers));
    for (const reader of readers) reader.resolve(reader.ids.map((id) => found.get(id)));
  }

  async function addMerged(writers: readonly Writer[]): Promise<void> {
    const [first] = writers;
    if (first && writers.length === 1) {
      first.resolve(await source.add(first.newPet, first.call));
      return;
    }
    const call = toSharedCall(writers);
    let pets: readonly Pet[];
    try {
      const newPets = writers.map(({ newPet }) => newPet);
      pets = await source.addMany(newPets, call);
    } catch (error) {
      if (error instanceof StoreError) throw error;
      // The database refused the statement for the sake of one animal, and added none.
      await Promise.all(writers.map((writer) => addAlone(writer, call)));
      return;
    }
    writers.forEach(({ resolve }, index) => resolve(pets[index] as Pet));
  }

  async function addAlone({ newPet, resolve, reject }: Writer, call: Call): Promise<void> {
    try {
      resolve(await source.add(newPet, call));
    } catch (error) {
      reject(error);
    }
  }
}

/** Where those of one kind wait for the next statement. */
class Gate<Entry extends Waiting<never>> {
  #waiting: Entry[] = [];
  #underWay = 0;
  #isScheduled = false;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param sizeOf - how much of a statement one entry takes, of `MAX_MERGED`
   * @param ask - asks for all entries at once and settles them; what it throws, all of them get
   */
  constructor(
    private readonly sizeOf: (entry: Entry) => number,
    private readonly ask: (entries: readonly Entry[]) => Promise<void>,
  ) {}

  enter(entry: Entry): void {
    this.#waiting.push(entry);
    if (this.#underWay === 0) this.#schedule();
    else this.#timer ??= setTimeout(this.#dispatch, MAX_HELD_MS);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // An immediate runs after every pending promise hop, when all requests that have arrived have asked.
    setImmediate(this.#dispatch);
  }

  readonly #dispatch = (): void => {
    this.#isScheduled = false;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const due = this.#waiting;
    this.#waiting = [];
    let group: Entry[] = [];
    let size = 0;
    for (const entry of due) {
      if (entry.call.isCancelled) {
        entry.reject(new CallCancelled());
        continue;
      }
      const own = this.sizeOf(entry);
      if (size + own > MAX_MERGED && group.length > 0) {
        this.#send(group);
        group = [];
        size = 0;
      }
      group.push(entry);
      size += own;
    }
    if (group.length > 0) this.#send(group);
  };

  #send(group: readonly Entry[]): void {
    this.#underWay += 1;
    void this.ask(group)
      .catch((error: unknown) => {
        for (const { reject } of group) reject(error);
      })
      .finally(() => {
        this.#underWay -= 1;
        if (this.#waiting.length > 0) this.#schedule();
      });
  }
}

/** Nobody's going away ends a question that others wait for too. */
function toSharedCall(waiting: readonly Waiting<never>[]): Call {
  const { call } = waiting[0] as Waiting<never>;
  if (waiting.length === 1) return call;
  const { requestId, startedAt } = call;
  return { ...NEVER_CANCELLED, requestId, startedAt, ...joinSpans(waiting.map(({ call: { span } }) => span)) };
}
