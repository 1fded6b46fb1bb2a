import type { MaybePromise } from '../access/maybe-promise.js';
import { callAfter } from '../clock.js';
import { overloaded } from '../errors.js';

/** Limits how many callers use something at once. Those that write leave a fifth of the slots to those that read. */
export function createSlots(max: number) {
  const maxWrites = Math.max(1, max - Math.ceil(max / 5));
  let used = 0;
  let writes = 0;
  const waiting = new Set<{ readonly isWrite: boolean; readonly start: () => void }>();

  return {
    /** @throws StoreError `overloaded` if no slot is free in time */
    take(isWrite: boolean, timeoutMs: number): MaybePromise<void> {
      if (occupy(isWrite)) return;
      return new Promise<void>((resolve, reject) => {
        const prevent = callAfter(timeoutMs, () => {
          waiting.delete(waiter);
          reject(overloaded());
        });
        const start = (): void => {
          prevent();
          resolve();
        };
        const waiter = { isWrite, start };
        waiting.add(waiter);
      });
    },
    /** Gives a slot back, to the caller that has waited the longest. @param pauseMs - how long nobody gets it */
    free(isWrite: boolean, pauseMs = 0): void {
      if (isWrite) writes -= 1;
      if (pauseMs === 0) startNext();
      else setTimeout(startNext, pauseMs).unref();
    },
    used: () => used,
    waiting: () => waiting.size,
  };

  function startNext(): void {
    used -= 1;
    for (const waiter of waiting) {
      if (!occupy(waiter.isWrite)) continue;
      waiting.delete(waiter);
      waiter.start();
      break;
    }
  }

  function occupy(isWrite: boolean): boolean {
    if (used >= max || (isWrite && writes >= maxWrites)) return false;
    used += 1;
    if (isWrite) writes += 1;
    return true;
  }
}
