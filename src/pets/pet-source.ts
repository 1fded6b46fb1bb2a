import type { UpstreamKey } from '../access/session.js';
import type { IdempotencyKey } from './idempotency-key.js';
import type { Int64 } from './int64.js';
import { notFound, type NewPet, type Pet, type PetQuery } from './pet.js';

/** The HTTP request that a source works for. */
export interface Call {
  readonly requestId: string;
  /** By `performance.now()`. Time limits start here. */
  readonly startedAt: number;
  /** Whether the client has disconnected. A source then starts nothing more. */
  readonly isCancelled: boolean;
  onCancel(listener: () => void): void;
  offCancel(listener: () => void): void;
  /** For proxy mode, like `clientName`. */
  readonly key?: UpstreamKey;
  readonly clientName?: string;
}

export class CallCancelled extends Error {
  override readonly name = 'AbortError';

  constructor() {
    super('The client has disconnected.');
  }
}

const ignore = (): void => undefined;

/** Creates a call that is never cancelled. */
export function createCall(requestId: string, startedAt = performance.now()): Call {
  return { requestId, startedAt, isCancelled: false, onCancel: ignore, offCancel: ignore };
}

/** The longer list with which a list begins: the text of both is written once. */
export const WHOLE = Symbol('whole');
/** The most characters that a list keeps of its text. */
export const MAX_KEPT_TEXT = 16_384;

/**
 * Animals by id. An id has no entry if there is no such animal, and an Error if it alone cannot be answered (also
 * `not_found`, if the backend supplies its own message).
 */
export type FoundPets = ReadonlyMap<Int64, Pet | Error>;

/** @throws StoreError `not_found`, or the Error of this id */
export function pickPet(found: FoundPets, id: Int64): Pet {
  const pet = found.get(id) ?? notFound(id);
  if (pet instanceof Error) throw pet;
  return pet;
}

/**
 * The source of the animals. One test suite checks this contract for every backend. Callers have parsed the arguments.
 * A source fails with a `StoreError`: `unavailable` if the backend cannot be reached in time.
 */
export interface PetSource {
  /**
   * Lists the animals that match, lowest id first, at most `query.limit`.
   * @throws StoreError `upstream_error` if `query.after` is set and the backend has no paging
   */
  list(query: PetQuery, call: Call): Promise<readonly Pet[]>;
  /**
   * Looks up many animals at once. `ids` may contain duplicates.
   * @returns the animals of these ids, and perhaps of others
   */
  findMany(ids: readonly Int64[], call: Call): Promise<FoundPets>;
  /**
   * Adds an animal. When the promise resolves, the animal is durable. A cancelled call may or may not have added it.
   * @param key - for 24 hours, equal requests of the caller with this key add one animal and return the same one
   * @throws StoreError `idempotency_key_reused` if the caller used the key for a different animal
   */
  add(newPet: NewPet, call: Call, key?: IdempotencyKey): Promise<Pet>;
}

/** A source that can serve many callers with one statement. */
export interface BulkPetSource extends PetSource {
  /** Whether a statement keeps the event loop busy, as in an embedded database. */
  readonly isBlocking?: boolean;
  /**
   * Adds all animals or none. An error that is not a StoreError guarantees that none was added.
   * @returns the animals in the order of `newPets`
   */
  addMany(newPets: readonly NewPet[], call: Call): Promise<readonly Pet[]>;
}
