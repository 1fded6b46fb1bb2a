import { createPlaces } from './places.js';

/**
 * Creates a function whose promises are fulfilled one by one for each caller, in order, with a time between two, in
 * milliseconds. One that `isOver` takes no time from the others.
 */
export function createPacer(betweenMs: number) {
  const takePlace = createPlaces(1);
  return (caller: string, isOver: () => boolean): Promise<void> =>
    new Promise((resolve) => {
      const leave = takePlace(caller, () => {
        resolve();
        if (isOver()) process.nextTick(() => leave());
        else setTimeout(() => leave(), betweenMs);
      });
    });
}
