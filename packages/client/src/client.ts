import { createAddAll, type AddAllOptions } from './add-all.js';
import { createIdempotencyKey } from './idempotency-key.js';
import { createKeyRequest, type Key, type KeyUsage } from './key.js';
import { updateWindows, type LimitWindow } from './limits.js';
import { createNotices, type LimitNotice } from './notices.js';
import { sortIds, walk } from './pages.js';
import { badInput, isPetError, type PetError } from './pet-error.js';
import { toDryRun } from './price.js';
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
   * that would exceed this does not start. The time of the requests does not count, nor do the up to 250 ms by which
   * each wait is extended at random.
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
  /**
   * Called with what is left of the key's plan after each response that states it, except after `key` and `usage`. The
   * shortest window is first.
   */
  readonly onLimit?: (windows: readonly LimitWindow[]) => void;
  /** Called once per window when 80 percent of it are used, and once for 95, as far as the responses show it. */
  readonly onNotice?: (notice: LimitNotice) => void;
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
  /** Only animals with a greater id. For the next page, pass the id of the last animal. */
  readonly after?: PetId | undefined;
}

export interface AddOptions extends CallOptions {
  /**
   * Calls with the same key add the animal once: 1 to 255 characters of printable ASCII without spaces or quotes.
   * Without one, the client makes one for each call.
   */
  readonly idempotencyKey?: string | undefined;
}

/** Every method throws a PetError, the reason of its signal, or a TypeError for an option out of its range. */
export interface PetClient {
  /** Lists animals, lowest id first. */
  list(options?: ListOptions): Promise<readonly Pet[]>;
  /**
   * Lists all animals, lowest id first, in pages of 100. It requests a page only when the loop reaches it. Each animal
   * that exists at the start is in the loop once, however many are added.
   * @example for await (const pet of client.pets({ status: 'SOLD' })) console.log(pet.name);
   */
  pets(options?: Omit<ListOptions, 'limit'>): AsyncGenerator<Pet, void, undefined>;
  /**
   * Looks up one animal. Lookups of the same tick of the event loop share a request.
   *
   * With `getFromLists`, the request is for lists that begin with the ids, and ids that differ by less than 100 share a
   * list. Each list costs one request of the key's plan.
   */
  get(id: PetId, options?: CallOptions): Promise<Pet>;
  /**
   * Looks up many animals, in as few requests as the key's plan allows.
   * @returns for each id, in order, the animal or why its lookup failed
   */
  loadMany(ids: readonly PetId[], options?: CallOptions): Promise<(Pet | PetError)[]>;
  /** Adds an animal. Unless `idempotencyKeys` is off, the client can safely repeat it. */
  add(pet: NewPet, options?: AddOptions): Promise<Pet>;
  /**
   * Adds many animals at the pace that the key allows: each operation adds as many as are left, at most 20. It waits for
   * as many windows as it takes, and each wait may take `maxWaitMs`.
   * @returns for each animal, in order, the animal with its id, or the BAD_USER_INPUT with which the store refused it
   * @throws PetError any other failure, which ends the call
   */
  addAll(pets: Iterable<NewPet> | AsyncIterable<NewPet>, options: AddAllOptions): Promise<(Pet | PetError)[]>;
  /**
   * Asks how many requests a query costs, without running it. This is free, never repeated, and allowed 60 times a
   * minute. Before a gateway knows the limits of the key, the error is `UNRECOGNIZED`.
   * @param document - without mutations
   */
  price(document: string, variables?: Readonly<Record<string, unknown>>, options?: CallOptions): Promise<number>;
  /** Asks what the key may and has left. Like `usage`, it is free, never repeated, and allowed 60 times a minute. */
  key(options?: CallOptions): Promise<Key>;
  /** Asks what the key has used. @param options.days - 1 to 366, with today (default 30) */
  usage(options?: CallOptions & { readonly days?: number | undefined }): Promise<KeyUsage>;
}

/**
 * Creates a client. It learns the key's windows from the responses, waits while they would refuse a request, and repeats
 * what may succeed later. A call that would have to wait longer than `maxWaitMs` fails at once.
 * @throws TypeError if an option is invalid; its message never contains the key
 */
export function createPetClient(options: PetClientOptions): PetClient {
  const {
    key,
    clientName = '',
    concurrency = 4,
    maxWaitMs = 65_000,
    timeoutMs = 10_000,
    idempotencyKeys = true,
    getFromLists = false,
    fetch = (url: string, init: RequestInit) => globalThis.fetch(url, init),
    onLimit,
    onNotice,
  } = options;
  const url = new URL(options.url, (globalThis as { location?: { href: string } }).location?.href);
  // `fetch` refuses other URLs only with each request, which looks like a failure of the connection.
  if (!/^https?:\/\/[^/@]+\//.test(url.href)) throw new TypeError('url must be http or https, without a user name.');
  if (typeof key !== 'string' || !/^[\x21-\x7e]+$/.test(key))
    throw new TypeError('key must be printable ASCII without spaces.');
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
  const notice = onNotice && createNotices(onNotice);
  const tellLimit = (windows: readonly LimitWindow[]): void => {
    notice?.(windows);
    onLimit?.(windows);
  };
  const ask = createKeyRequest(endpoint, (received) => notice?.(updateWindows([], received)));
  const run = createQueue((fields, controller) => sendFields(fields, controller, endpoint, getFromLists), {
    ...options,
    onLimit: tellLimit,
    concurrency,
    maxWaitMs,
    idempotencyKeys,
  });
  const addAll = createAddAll(run, toInput);

  return {
    list,
    pets: (walked = {}) => walk(list, walked),
    loadMany,
    key: ({ signal } = {}) => ask('', signal),
    usage: ({ days = 30, signal } = {}) => ask(`/usage?days=${encodeURIComponent(days)}`, signal),
    async get(id, call) {
      return unwrap((await loadMany([id], call))[0]);
    },
    async add(pet, { idempotencyKey, signal } = {}) {
      const input = unwrap(toInput(pet));
      if (idempotencyKey !== undefined) requireToken('idempotencyKey', idempotencyKey);
      const ownKey = idempotencyKey ?? (idempotencyKeys ? createIdempotencyKey() : undefined);
      return runOne<Pet>({ kind: 'addPet', variables: { input }, idempotencyKey: ownKey }, signal);
    },
    async addAll(pets, addOptions) {
      if (!idempotencyKeys) throw badInput('addAll needs idempotencyKeys.');
      requireToken('name', addOptions.name, 240);
      atLeast('skip', addOptions.skip ?? 0, 0);
      return addAll(pets, addOptions);
    },
    async price(given, variables = {}, { signal } = {}) {
      // A bigint has no form in JSON.
      const toJson = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value);
      const body = JSON.stringify({ query: toDryRun(given), variables }, toJson);
      return (await runOne<{ readonly cost: number }>({ kind: 'price', variables, body }, signal)).cost;
    },
  };

  async function list({ status, limit, after, signal }: ListOptions = {}): Promise<readonly Pet[]> {
    const start = after === undefined ? undefined : unwrap(parseId('after', after));
    return runOne({ kind: 'pets', variables: { limit, status, after: start } }, signal);
  }

  async function runOne<T>(field: Field, signal: AbortSignal | undefined): Promise<T> {
    return unwrap((await run([field], signal))[0]) as T;
  }

  async function loadMany(given: readonly PetId[], { signal }: CallOptions = {}): Promise<(Pet | PetError)[]> {
    const ids = given.map((id) => parseId('id', id));
    // Neighbours share a list.
    const valid = sortIds([...new Set(ids.filter((id) => typeof id === 'string'))]);
    const fields = valid.map((id): Field => ({ kind: 'pet', variables: { id }, group: 'pet' }));
    const results = await run(fields, signal);
    const found = new Map(valid.map((id, index) => [id, results[index] as Pet | PetError]));
    return ids.map((id) => (isPetError(id) ? id : (found.get(id) as Pet | PetError)));
  }
}

/** Checks what would fail all animals of its request: values of a wrong type, and names that are far too long. */
function toInput({ name, categoryId, status }: NewPet): object | PetError {
  const id = parseId('categoryId', categoryId);
  // A character has up to two units.
  if (typeof name !== 'string' || name.length > 510 || !/^(AVAILABLE|PENDING|SOLD)$/.test(status ?? 'SOLD'))
    return badInput('name must be 1 to 255 characters, status AVAILABLE, PENDING or SOLD.');
  return isPetError(id) ? id : { name, categoryId: id, status };
}

/** @throws PetError if the result is one */
function unwrap<T>(result: T): Exclude<T, PetError | undefined> {
  if (isPetError(result)) throw result;
  return result as Exclude<T, PetError | undefined>;
}

/** @returns the id in plain digits; an error if it is no whole number, or may have been rounded */
function parseId(name: string, given: PetId): string | PetError {
  const text = String(given);
  const isExact = typeof given !== 'number' || Number.isSafeInteger(given);
  if (isExact && /^(?:0|-?[1-9]\d{0,18})$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text)) return text;
  const shown = typeof given === 'string' ? JSON.stringify(text) : text;
  return badInput(
    `${name} must be a 64-bit integer such as "42", as a number at most 2^53 - 1; got ${shown.slice(0, 40)}.`,
  );
}

/** https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/ */
function requireToken(option: string, value: string, longest = 255): void {
  if (!/^[\x21\x23-\x7e]+$/.test(value) || value.length > longest)
    throw badInput(`${option} must be 1 to ${longest} characters of printable ASCII without spaces or quotes.`);
}

/** A longer timer would end at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
