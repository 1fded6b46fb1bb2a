import { callAfter } from '../clock.js';
import { overloaded } from '../errors.js';

/** Limits how many callers use something at once. @param most - of them */
export function createSlots(most: number) {
  let max = most;
  let used = 0;
  let timer: NodeJS.Timeout | undefined;
  const waiting = new Set<() => void>();

  return {
    /** @throws StoreError `overloaded` if no slot is free in time */
    async take(timeoutMs: number): Promise<void> {
      if (used < max) {
        used += 1;
        return;
      }
      await new Promise<void>((resolve, reject) => {
        const start = (): void => {
          prevent();
          resolve();
        };
        const prevent = callAfter(timeoutMs, () => {
          waiting.delete(start);
          reject(overloaded());
        });
        waiting.add(start);
      });
    },
    /** Gives a slot back, to the caller that has waited the longest. */
    free(): void {
      used -= 1;
      startWaiting();
    },
    /** Makes do with fewer for some time, in milliseconds. */
    limit(count: number, ms: number): void {
      max = Math.max(1, Math.min(most, count));
      clearTimeout(timer);
      timer = setTimeout(() => {
        max = most;
        startWaiting();
      }, ms).unref();
    },
    used: () => used,
    waiting: () => waiting.size,
  };

  function startWaiting(): void {
    for (const start of waiting) {
      if (used >= max) return;
      waiting.delete(start);
      used += 1;
      start();
    }
  }
}
