import type { Call } from '../pet-source.js';
import type { UpstreamAnswer } from './upstream-client.js';
import { timedOut } from './upstream-errors.js';

/** A request that may serve several calls. */
export interface SharedRequest {
  readonly answer: Promise<UpstreamAnswer>;
  /** True once it may have reached the store: whoever comes later may know of something newer, and must not join. */
  readonly hasLeft: boolean;
  /** Why the attempts so far have failed, if they have. */
  readonly lastFailure: Error | undefined;
  /** Nobody waits any more. */
  cancel(reason: Error): void;
}

/** Joins equal requests that have not left yet. Each call waits with its own time limit and may go away on its own. */
export interface SharedRequests {
  /**
   * @param id - equal for requests that are the same: same key, same path; undefined for one that is never shared
   * @param start - starts the request
   */
  ask(id: string | undefined, call: Call, start: () => SharedRequest): Promise<UpstreamAnswer>;
}

export interface SharedRequestsOptions {
  /** Time for one call, from its start, in milliseconds. */
  readonly timeoutMs: number;
}

interface Entry {
  readonly request: SharedRequest;
  waiting: number;
}

export function createSharedRequests({ timeoutMs }: SharedRequestsOptions): SharedRequests {
  const entries = new Map<string, Entry>();

  return {
    ask(id, call, start) {
      const left = call.startedAt + timeoutMs - performance.now();
      if (call.signal.aborted) return Promise.reject(call.signal.reason as Error);
      if (left <= 0) return Promise.reject(timedOut());
      return wait(join(id, start), call, left);
    },
  };

  function join(id: string | undefined, start: () => SharedRequest): Entry {
    const known = id === undefined ? undefined : entries.get(id);
    if (known && !known.request.hasLeft && known.waiting > 0) return known;
    const entry: Entry = { request: start(), waiting: 0 };
    if (id !== undefined) {
      entries.set(id, entry);
      const forget = (): void => {
        if (entries.get(id) === entry) entries.delete(id);
      };
      entry.request.answer.then(forget, forget);
    }
    return entry;
  }
}

function wait(entry: Entry, { signal }: Call, milliseconds: number): Promise<UpstreamAnswer> {
  entry.waiting += 1;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => leave(entry.request.lastFailure ?? timedOut()), milliseconds);
    const abort = (): void => leave(signal.reason as Error);
    signal.addEventListener('abort', abort, { once: true });
    entry.request.answer.then(resolve, reject).finally(settle);

    function settle(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    }

    function leave(reason: Error): void {
      settle();
      reject(reason);
      entry.waiting -= 1;
      if (entry.waiting === 0) entry.request.cancel(reason);
    }
  });
}
