import { callAfter } from '../clock.js';
import { overloaded } from '../errors.js';

/** Limits how many callers use something at once. */
export function createSlots(max: number) {
  let used = 0;
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
      const [start] = waiting;
      if (start) {
        waiting.delete(start);
        start();
      } else used -= 1;
    },
    used: () => used,
    waiting: () => waiting.size,
  };
}
