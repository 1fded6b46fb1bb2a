import { createPlaces } from './places.js';
import type { HttpRequest } from './request.js';

/** Nobody waits longer, in milliseconds. */
const MAX_WAIT_MS = 30_000;

/**
 * Creates a function whose promises are fulfilled one by one for each caller, in order, with a time between two, in
 * milliseconds. If a client leaves, its promise is fulfilled at once and takes no time from the others. The promise is
 * rejected with StoreError `overloaded` if too many wait.
 */
export function createPacer(betweenMs: number) {
  const takePlace = createPlaces(1, MAX_WAIT_MS / betweenMs);
  return (request: HttpRequest): Promise<void> =>
    new Promise((resolve) => {
      if (request.isCancelled) return resolve();
      let isWaiting = true;
      const leave = takePlace(request.caller, () => {
        isWaiting = false;
        resolve();
        setTimeout(() => leave(), betweenMs);
      });
      request.onCancel(() => {
        if (isWaiting) leave();
        resolve();
      });
    });
}
