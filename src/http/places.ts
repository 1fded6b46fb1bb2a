/**
 * Creates a function that calls `start` when one of the caller's places is free, at once if there is one. It returns a
 * function that gives the place back or, if the caller still waits, stops waiting.
 * @param most - places of each caller
 */
export function createPlaces(most: number): (caller: string, start: () => void) => () => void {
  const callers = new Map<string, { taken: number; readonly waiting: Set<() => void> }>();

  return (name, start) => {
    const caller = callers.get(name) ?? { taken: 0, waiting: new Set() };
    callers.set(name, caller);
    if (caller.taken < most) {
      caller.taken += 1;
      start();
    } else caller.waiting.add(start);
    return () => {
      if (caller.waiting.delete(start)) return;
      const [next] = caller.waiting;
      if (next) {
        caller.waiting.delete(next);
        next();
      } else if ((caller.taken -= 1) === 0) callers.delete(name);
    };
  };
}
