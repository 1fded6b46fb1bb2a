import type { Dispatcher } from 'undici';
import { createAbortWatch } from './lookups/abort-watch.js';
import { createGraphqlTransport } from './lookups/graphql-transport.js';
import { createLookupBatcher } from './lookups/lookup-batcher.js';
import { toLookupId, type PetId } from './lookups/lookup-id.js';
import type { LoadedPet } from './lookups/lookup-answer.js';
import { PetError } from './lookups/pet-error.js';
import { readPetClientOptions } from './pet-client-options.js';

export { PetError, type PetErrorCode } from './lookups/pet-error.js';
export type { LoadedPet, PetStatus } from './lookups/lookup-answer.js';
export type { PetId } from './lookups/lookup-id.js';

export interface PetClientOptions {
  /** The GraphQL endpoint, such as `https://host/graphql`. */
  readonly url: string | URL;
  /** The API key. It is sent to `url` alone. */
  readonly key: string;
  /** What this client calls itself, for who runs the store to know: up to 100 printable ASCII characters. */
  readonly clientName?: string;
  /** The most lookups in one operation (default 100): the server's `MAX_ROOT_FIELDS`. A smaller server's is found out. */
  readonly maxRootFields?: number;
  /** The most operations under way at once, each on a connection of its own (default 4). */
  readonly concurrency?: number;
  /** How long a lookup may wait for limits and for a server in trouble, in milliseconds (default 65,000). */
  readonly waitBudgetMs?: number;
  /** How long one round trip may take, in milliseconds (default 10,000). */
  readonly timeoutMs?: number;
  /** Ends every lookup, and the client with them. */
  readonly signal?: AbortSignal;
  /** Where requests go out, for a proxy or certificates of its own; it stays open when the client is closed. */
  readonly dispatcher?: Dispatcher;
}

export interface LoadOptions {
  /** Ends the wait; requests that nobody else waits for are cancelled. */
  readonly signal?: AbortSignal;
}

/** Looks animals up by their ids, many in one round trip. */
export interface PetClient {
  /**
   * Looks one animal up.
   * @throws PetError `NOT_FOUND` when there is none, and for every other reason why it cannot be had
   * @throws the reason of the signal, an `AbortError` by default, when the wait was ended by it
   */
  load(id: PetId, options?: LoadOptions): Promise<LoadedPet>;
  /**
   * Looks several up.
   * @returns the animal or its own error for each id, in their order
   * @throws the reason of the signal when the wait was ended by it; nothing else
   */
  loadMany(ids: readonly PetId[], options?: LoadOptions): Promise<(LoadedPet | PetError)[]>;
  /** Ends what is under way with an `AbortError`, and closes the connections. */
  close(): Promise<void>;
}

/**
 * Makes a client for services that look many animals up. Lookups of one turn of the event loop are asked together, equal ids
 * once, in operations no larger than the server and the key's smallest window take. It learns the key's windows from the
 * answers and sends nothing that they would refuse; what has to wait longer than its budget fails with `RATE_LIMITED`.
 *
 * It asks by the field `Query.pet`, the only lookup by id that the store has. That field is deprecated and goes on
 * 5 December 2030, and this client with it.
 * @throws TypeError or RangeError naming the option that is wrong
 */
export function createPetClient(options: PetClientOptions): PetClient {
  const { url, key, clientName, maxRootFields, concurrency, waitBudgetMs, timeoutMs, signal, dispatcher } =
    readPetClientOptions(options);
  const transport = createGraphqlTransport({ url, key, clientName, concurrency, timeoutMs, dispatcher });
  const batcher = createLookupBatcher({ transport, maxRootFields, concurrency, waitBudgetMs });
  const aborts = createAbortWatch();
  /** How each call under way is ended. */
  const calls = new Set<(reason: Error) => void>();
  let ended: { readonly reason: Error; readonly closed: Promise<void> } | undefined;
  const unwatchClient = signal && aborts.watch(signal, () => void end(signal.reason as Error));
  if (signal?.aborted) void end(signal.reason as Error);

  return {
    async load(id, loadOptions) {
      const [result] = (await loadMany([id], loadOptions)) as [LoadedPet | PetError];
      if (result instanceof PetError) throw result;
      return result;
    },
    loadMany,
    close: () => end(new DOMException('The pet client is closed.', 'AbortError')),
  };

  async function loadMany(
    ids: readonly PetId[],
    { signal: callSignal }: LoadOptions = {},
  ): Promise<(LoadedPet | PetError)[]> {
    if (ended) throw ended.reason;
    callSignal?.throwIfAborted();
    if (ids.length === 0) return [];
    return new Promise((resolve, reject) => {
      const results = new Array<LoadedPet | PetError>(ids.length);
      const leaves: (() => void)[] = [];
      let missing = ids.length;
      const abort = (reason: Error): void => {
        detach();
        for (const leave of leaves) leave();
        reject(reason);
      };
      const unwatch = callSignal && aborts.watch(callSignal, () => abort(callSignal.reason as Error));
      calls.add(abort);
      ids.forEach((given, index) => {
        const settle = (result: LoadedPet | PetError): void => {
          results[index] = result;
          missing -= 1;
          if (missing > 0) return;
          detach();
          resolve(results);
        };
        const id = toLookupId(given);
        if (id instanceof PetError) settle(id);
        else leaves.push(batcher.ask(id, settle));
      });

      function detach(): void {
        calls.delete(abort);
        unwatch?.();
      }
    });
  }

  function end(reason: Error): Promise<void> {
    if (!ended) {
      ended = { reason, closed: transport.close() };
      unwatchClient?.();
      for (const abort of [...calls]) abort(reason);
    }
    return ended.closed;
  }
}
