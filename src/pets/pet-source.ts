import type { UpstreamKey } from '../access/upstream-key.js';
import type { SpanParent } from '../observability/tracing.js';
import type { IdempotencyKey } from './idempotency-key.js';
import type { Int64 } from './int64.js';
import type { NewPet, Pet, PetQuery } from './pet.js';

/** On whose behalf a source is asked: one HTTP request. */
export interface Call extends SpanParent {
  readonly requestId: string;
  /** When the request came, by `performance.now()`; time limits run from there. */
  readonly startedAt: number;
  /** True when the client has gone away: what has not been started need not be. */
  readonly isCancelled: boolean;
  /**
   * Has a listener called when the client goes away. (An AbortSignal would be a twentieth of what a list from another store
   * costs.)
   */
  onCancel(listener: () => void): void;
  /** Takes a listener back. */
  offCancel(listener: () => void): void;
  /** The caller's key, for a source that asks another store. */
  readonly key?: UpstreamKey | undefined;
  /** What the client calls itself, for a source that asks another store. */
  readonly clientName?: string | undefined;
}

/** What a call whose client has gone away is rejected with. */
export class CallCancelled extends Error {
  override readonly name = 'AbortError';

  constructor() {
    super('The client has gone away.');
  }
}

/** The part of a call whose client never goes away. */
export const NEVER_CANCELLED: Pick<Call, 'isCancelled' | 'onCancel' | 'offCancel'> = {
  isCancelled: false,
  onCancel: () => undefined,
  offCancel: () => undefined,
};

/** A call on nobody's behalf but the program's own. */
export function createCall(requestId: string): Call {
  return { ...NEVER_CANCELLED, requestId, startedAt: performance.now() };
}

/**
 * Where animals live. Every backend keeps this contract, and one test suite holds them to it.
 *
 * Failures are `StoreError`s: `unavailable` when the backend cannot be reached in time. A source checks no arguments:
 * its callers have parsed them.
 */
export interface PetSource {
  /** The animals that match, lowest id first, at most `query.limit`. */
  list(query: PetQuery, call: Call): Promise<readonly Pet[]>;
  /**
   * Looks many animals up at once.
   * @returns one slot for each id, in the order of `ids`: the animal, undefined when there is none, or the Error of
   * that id alone (also `not_found`, where the backend says it in words of its own)
   */
  findMany(ids: readonly Int64[], call: Call): Promise<readonly (Pet | Error | undefined)[]>;
  /**
   * Adds an animal. When it returns, the animal is durable. A cancelled call may have added it or not.
   * @param key - makes equal requests of its caller add once, and give the same animal, for 24 hours
   * @throws StoreError `idempotency_key_reused` when the caller asked for another animal under the key
   */
  add(newPet: NewPet, call: Call, key?: IdempotencyKey): Promise<Pet>;
}

/** A source that can do for many callers at once what it does for one. */
export interface BulkPetSource extends PetSource {
  /** Looks animals up; those that there are not are missing in the answer. `ids` may name one more than once. */
  findAll(ids: readonly Int64[], call: Call): Promise<ReadonlyMap<Int64, Pet>>;
  /**
   * Adds all animals or none: none for certain when it throws anything but a StoreError.
   * @returns the animals in the order of `newPets`
   */
  addMany(newPets: readonly NewPet[], call: Call): Promise<readonly Pet[]>;
}
