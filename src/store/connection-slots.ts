import { callAfter } from '../clock.js';
import { overloaded } from '../errors.js';

/** How long to use fewer connections, after the server has refused one. */
const FEWER_FOR_MS = 10_000;

/** Limits how many callers have a connection at once. Unlike the queue of the pool, it tells a busy pool from a failure. */
export function createSlots(max: number) {
  let size = max;
  let used = 0;
  let waiting: (() => void)[] = [];
  let timer: NodeJS.Timeout | undefined;

  return {
    /** @throws StoreError `overloaded` if no slot is free in time */
    take(timeoutMs: number): Promise<void> {
      if (used < size) {
        used += 1;
        return Promise.resolve();
      }
      return new Promise((resolve, reject) => {
        const start = (): void => {
          prevent();
          resolve();
        };
        const prevent = callAfter(timeoutMs, () => {
          waiting = waiting.filter((one) => one !== start);
          reject(overloaded());
        });
        waiting.push(start);
      });
    },
    free(): void {
      used -= 1;
      startNext();
    },
    /** Has at most this many slots for a while. */
    limit(count: number): void {
      size = Math.min(size, count);
      clearTimeout(timer);
      timer = setTimeout(() => {
        size = max;
        startNext();
      }, FEWER_FOR_MS).unref();
    },
    waiting: () => waiting.length,
  };

  function startNext(): void {
    while (used < size && waiting.length > 0) {
      used += 1;
      waiting.shift()?.();
    }
  }
}
