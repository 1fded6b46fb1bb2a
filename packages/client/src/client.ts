import { createIdempotencyKey } from './idempotency-key.js';
import type { LimitWindow } from './limits.js';
import { createListSearch } from './list-search.js';
import { createPetError, isPetError, type PetError } from './pet-error.js';
import { createQueue } from './queue.js';
import { sendFields, type Field } from './request.js';

export type PetStatus = 'AVAILABLE' | 'PENDING' | 'SOLD';

/** An animal. Its identifiers are int64 in plain digits, exact. */
export interface Pet {
  readonly id: string;
  readonly name: string;
  readonly categoryId: string;
  /** Null if none was given. */
  readonly status: PetStatus | null;
}

/** An int64: in plain digits such as "42", as a bigint, or as a number up to 2^53 − 1. */
export type PetId = string | bigint | number;

/** An animal to add. */
export interface NewPet {
  /** 1 to 255 Unicode code points, not all of them white space. */
  readonly name: string;
  readonly categoryId: PetId;
  readonly status?: PetStatus | null;
}

export interface PetClientOptions {
  /** The GraphQL endpoint, such as `https://store.example.com/graphql`. In a browser, it may be relative. */
  readonly url: string | URL;
  /** The API key. The client sends it to `url` and nowhere else. */
  readonly key: string;
  /** A name that the operators of the store see. */
  readonly clientName?: string;
  /** The most requests at the same time (default 4). */
  readonly concurrency?: number;
  /**
   * How long a call may wait in total, for limits and for a store in trouble, in milliseconds (default 65,000). A wait
   * that would exceed this does not start. The time of the requests does not count.
   */
  readonly maxWaitMs?: number;
  /** How long one request may take, in milliseconds (default 10,000). */
  readonly timeoutMs?: number;
  /** `false` if the store ignores the header `Idempotency-Key`. The client then never repeats an `add`. */
  readonly idempotencyKeys?: boolean;
  /** `true` once the store has no `pet(id)`, which will be removed on 5 December 2030. See `get`. */
  readonly getFromLists?: boolean;
  /** Called when calls begin to wait. */
  readonly onWait?: (wait: PetWait) => void;
  /** Called with what is left of the key's plan after each response that states it, the shortest window first. */
  readonly onLimit?: (windows: readonly LimitWindow[]) => void;
  /** Sends the requests in place of the global `fetch`, for example through a proxy. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** A wait for a limit, or for a store in trouble. `code` is that of the error that the waiting calls would have. */
export interface PetWait {
  readonly code: PetError['code'];
  readonly waitMs: number;
}

export interface CallOptions {
  /** Ends the call with the reason of the signal. The client cancels a request if no other call waits for it. */
  readonly signal?: AbortSignal | undefined;
}

export interface ListOptions extends CallOptions {
  readonly status?: PetStatus | undefined;
  /** From 1 to 100 (default 20). */
  readonly limit?: number | undefined;
}

export interface AddOptions extends CallOptions {
  /**
   * Calls with the same key add the animal once: 1 to 255 characters of printable ASCII without spaces or quotes.
   * Without one, the client makes one for each call.
   */
  readonly idempotencyKey?: string | undefined;
}

/** Every method throws a PetError, or the reason of its signal. */
export interface PetClient {
  /** Lists animals, lowest id first. */
  list(options?: ListOptions): Promise<readonly Pet[]>;
  /**
   * Looks up one animal. Lookups of the same tick of the event loop share a request.
   *
   * With `getFromLists`, it looks for the animal in the lists: the 100 lowest ids of all animals and of each status. If
   * those do not reach it, the error is `BEYOND_LISTS`.
   */
  get(id: PetId, options?: CallOptions): Promise<Pet>;
  /**
   * Looks up many animals, in as few requests as the key's plan allows.
   * @returns for each id, in order, the animal or why its lookup failed
   */
  loadMany(ids: readonly PetId[], options?: CallOptions): Promise<(Pet | PetError)[]>;
  /** Adds an animal. Unless `idempotencyKeys` is off, the client can safely repeat it. */
  add(pet: NewPet, options?: AddOptions): Promise<Pet>;
}

/**
 * Creates a client. It learns the key's windows from the responses, sends nothing that they would refuse, and repeats
 * what may succeed later. A call that would have to wait longer than `maxWaitMs` fails at once.
 * @throws TypeError if an option is invalid; its message never contains the key
 */
export function createPetClient(options: PetClientOptions): PetClient {
  const { key, clientName = '', concurrency = 4, maxWaitMs = 65_000, timeoutMs = 10_000 } = options;
  const {
    idempotencyKeys = true,
    getFromLists = false,
    fetch = (url: string, init: RequestInit) => globalThis.fetch(url, init),
  } = options;
  const url = new URL(options.url, (globalThis as { location?: { href: string } }).location?.href);
  if (!/^[\x21-\x7e]+$/.test(key)) throw new TypeError('key must be printable ASCII without spaces.');
  if (!/^[\x20-\x7e]*$/.test(clientName)) throw new TypeError('clientName must be printable ASCII.');
  const atLeast = (name: string, value: number, least: number): void => {
    if (!(value >= least)) throw new TypeError(`${name} must be at least ${least}, got ${value}.`);
  };
  atLeast('concurrency', concurrency, 1);
  atLeast('maxWaitMs', maxWaitMs, 0);
  atLeast('timeoutMs', timeoutMs, 1);
  const headers = {
    Authorization: `Bearer ${key}`,
    'Content-Type': 'application/json',
    Accept: 'application/graphql-response+json',
    ...(clientName && { 'apollographql-client-name': clientName }),
  };
  const endpoint = { url, headers, timeoutMs: Math.min(timeoutMs, LONGEST_TIMER_MS), fetch };
  const run = createQueue((fields, controller) => sendFields(fields, controller, endpoint), {
    ...options,
    concurrency,
    maxWaitMs,
  });
  const lookUp = (ids: readonly string[], signal: AbortSignal | undefined): Promise<unknown[]> =>
    run(
      ids.map((id) => ({ kind: 'pet', variables: { id } })),
      signal,
    );
  const find = getFromLists ? createListSearch(list) : lookUp;

  return {
    list,
    loadMany,
    async get(id, call) {
      return unwrap((await loadMany([id], call))[0]);
    },
    async add({ name, categoryId, status }, { idempotencyKey, signal } = {}) {
      const input = { name, categoryId: unwrap(parseId('categoryId', categoryId)), status };
      if (idempotencyKey !== undefined && !IDEMPOTENCY_KEY.test(idempotencyKey))
        throw badInput('idempotencyKey must be 1 to 255 characters of printable ASCII without spaces or quotes.');
      const ownKey = idempotencyKey ?? (idempotencyKeys ? createIdempotencyKey() : undefined);
      return runOne<Pet>({ kind: 'addPet', variables: { input }, idempotencyKey: ownKey }, signal);
    },
  };

  function list({ status, limit, signal }: ListOptions = {}): Promise<readonly Pet[]> {
    return runOne({ kind: 'pets', variables: { limit, status } }, signal);
  }

  async function runOne<T>(field: Field, signal: AbortSignal | undefined): Promise<T> {
    return unwrap((await run([field], signal))[0]) as T;
  }

  async function loadMany(given: readonly PetId[], { signal }: CallOptions = {}): Promise<(Pet | PetError)[]> {
    const ids = given.map((id) => parseId('id', id));
    const valid = ids.filter((id) => typeof id === 'string');
    const results = (await find(valid, signal)).values();
    return ids.map((id) => (isPetError(id) ? id : (results.next().value as Pet | PetError)));
  }
}

/** @throws PetError if the result is one */
function unwrap<T>(result: T): Exclude<T, PetError | undefined> {
  if (isPetError(result)) throw result;
  return result as Exclude<T, PetError | undefined>;
}

/** @returns the id in plain digits; an error if it is no whole number, or may have been rounded */
function parseId(name: string, given: PetId): string | PetError {
  const text = String(given);
  if ((typeof given !== 'number' || Number.isSafeInteger(given)) && /^(?:0|-?[1-9]\d{0,18})$/.test(text)) return text;
  const shown = typeof given === 'string' ? JSON.stringify(text) : text;
  return badInput(
    `${name} must be a 64-bit integer such as "42", as a number at most 2^53 - 1; got ${shown.slice(0, 40)}.`,
  );
}

/** https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/ */
const IDEMPOTENCY_KEY = /^[\x21\x23-\x7e]{1,255}$/;

/** A longer timer would end at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

function badInput(message: string): PetError {
  return createPetError({ code: 'BAD_USER_INPUT', message, requestId: '' });
}
