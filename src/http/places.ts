/** A place that something has taken, or waits for. */
export interface Place {
  readonly isTaken: boolean;
  /** Gives it up. */
  readonly leave: () => void;
}

/**
 * Creates a function that takes one of a caller's places. If there is none, `start` is called as soon as one is left.
 * @param most - places of each caller
 */
export function createPlaces(most: number): (caller: string, start: () => void) => Place {
  const callers = new Map<string, { taken: number; readonly waiting: Set<() => void> }>();

  return (name, start) => {
    const caller = callers.get(name) ?? { taken: 0, waiting: new Set() };
    callers.set(name, caller);
    const isTaken = caller.taken < most;
    if (isTaken) caller.taken += 1;
    else caller.waiting.add(start);
    const leave = (): void => {
      if (caller.waiting.delete(start)) return;
      const [next] = caller.waiting;
      if (next) {
        caller.waiting.delete(next);
        next();
      } else if ((caller.taken -= 1) === 0) callers.delete(name);
    };
    return { isTaken, leave };
  };
}
