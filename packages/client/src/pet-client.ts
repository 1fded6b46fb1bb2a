import { createLookupBatcher, type Lookup } from './lookup-batcher.js';
import { createLookupRequest, type LoadedPet } from './lookup-request.js';
import { parseOptions, type PetClientOptions } from './pet-client-options.js';
import { PetError } from './pet-error.js';

/** The id of an animal, an int64: in canonical decimal, as a bigint, or as a number up to 2^53 − 1. */
export type PetId = string | bigint | number;

export interface LoadOptions {
  /** Stops waiting. The client cancels a request if no other call waits for it. */
  readonly signal?: AbortSignal;
}

/** Looks up animals by id, many in one request. */
export interface PetClient {
  /**
   * Looks up one animal.
   * @throws PetError `NOT_FOUND` if it does not exist, and for every other reason why the lookup fails
   * @throws the reason of the signal, an `AbortError` by default, if the signal is aborted
   */
  load(id: PetId, options?: LoadOptions): Promise<LoadedPet>;
  /**
   * Looks up several animals.
   * @returns for each id, in order, the animal or the error of its lookup
   * @throws the reason of the signal if it is aborted; nothing else
   */
  loadMany(ids: readonly PetId[], options?: LoadOptions): Promise<(LoadedPet | PetError)[]>;
  /** Cancels all lookups with an `AbortError`. The client cannot be used afterwards. */
  close(): Promise<void>;
}

type Abort = (reason: Error) => void;

/**
 * Creates a client that looks up many animals. It collects the lookups of one turn of the event loop, sends each id once,
 * and sends requests no larger than the server and the smallest window of the key allow. It learns the windows from the
 * responses and sends nothing that they would refuse. A lookup that would have to wait longer than its budget fails with
 * `RATE_LIMITED`.
 *
 * It uses the field `Query.pet`, the store's only lookup by id. The field is deprecated and will be removed on
 * 5 December 2030, and this function with it.
 * @throws TypeError or RangeError that names the invalid option
 */
export function createPetClient(options: PetClientOptions): PetClient {
  const { signal, ...valid } = parseOptions(options);
  const batcher = createLookupBatcher({ ...valid, request: createLookupRequest(valid) });
  const closing = new AbortController();
  /** How to abort the calls in progress. Each signal gets one listener: Node warns of a leak if it has more than ten. */
  const calls = new Map<AbortSignal, Set<Abort>>();
  const closeBySignal = (): void => closing.abort(signal?.reason);
  signal?.addEventListener('abort', closeBySignal, { signal: closing.signal });
  if (signal?.aborted) closeBySignal();

  return {
    async load(id, loadOptions) {
      const [result] = (await loadMany([id], loadOptions)) as [LoadedPet | PetError];
      if (result instanceof PetError) throw result;
      return result;
    },
    loadMany,
    close() {
      closing.abort(new DOMException('The pet client is closed.', 'AbortError'));
      return Promise.resolve();
    },
  };

  async function loadMany(ids: readonly PetId[], loadOptions: LoadOptions = {}): Promise<(LoadedPet | PetError)[]> {
    const signals = [closing.signal, loadOptions.signal].filter((each) => each !== undefined);
    for (const each of signals) each.throwIfAborted();
    const lookups: Lookup[] = [];
    const results = ids.map((given) => {
      const id = parseId(given);
      if (id instanceof PetError) return Promise.resolve(id);
      const lookup = batcher.join(id);
      lookups.push(lookup);
      return lookup.result;
    });
    let abort: Abort = () => undefined;
    const aborted = new Promise<never>((_, reject) => (abort = reject));
    for (const each of signals) addCall(each, abort);
    try {
      return await Promise.race([aborted, Promise.all(results)]);
    } finally {
      for (const each of signals) removeCall(each, abort);
      for (const lookup of lookups) batcher.leave(lookup);
    }
  }

  function addCall(callSignal: AbortSignal, abort: Abort): void {
    const aborts = calls.get(callSignal);
    if (aborts) return void aborts.add(abort);
    calls.set(callSignal, new Set([abort]));
    callSignal.addEventListener('abort', abortCalls);
  }

  function removeCall(callSignal: AbortSignal, abort: Abort): void {
    const aborts = calls.get(callSignal);
    if (!aborts?.delete(abort) || aborts.size > 0) return;
    calls.delete(callSignal);
    callSignal.removeEventListener('abort', abortCalls);
  }

  function abortCalls({ target }: Event): void {
    const callSignal = target as AbortSignal;
    for (const abort of calls.get(callSignal) ?? []) abort(callSignal.reason as Error);
  }
}

/** @returns the id in canonical decimal; an error if it is not an int64, or may have been rounded */
function parseId(given: PetId): string | PetError {
  const text = String(given);
  const isExact = typeof given === 'string' || typeof given === 'bigint' || Number.isSafeInteger(given);
  if (isExact && /^(?:0|-?[1-9]\d{0,18})$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text)) return text;
  const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text;
  const received = typeof given === 'string' ? JSON.stringify(shown) : `the ${typeof given} ${shown}`;
  const expected = 'an int64: in canonical decimal, as a bigint, or as a number up to 2^53 − 1';
  return new PetError({ code: 'INVALID_ID', message: `The id must be ${expected}, got ${received}.` }, shown);
}
