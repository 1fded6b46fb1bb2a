import type { MaybePromise } from '../access/maybe-promise.js';

/** An operation's place in the queue for admission. */
export interface Turn {
  /** Waits until every earlier operation of the batch has been admitted or refused, and every other is there; then asks. */
  admit(cost: number): MaybePromise<void>;
  /** Gives the place up: the operation failed before it came to admission. Does nothing after `admit`. */
  leave(): void;
}

/**
 * Makes the turns of a batch, so that its operations are all admitted before any runs, in their order.
 * @param count - operations in the batch
 * @param admit - admits one; throws when it is refused
 */
export function createTurns(count: number, admit: (cost: number) => MaybePromise<void>): readonly Turn[] {
  if (count === 1) return [{ admit, leave: () => undefined }];
  type Arrival =
    { readonly kind: 'asks'; readonly cost: number; settle(outcome: Promise<void>): void } | { readonly kind: 'left' };
  const arrivals = new Map<number, Arrival>();

  return Array.from({ length: count }, (_, index) => ({
    admit: (cost) =>
      new Promise<void>((resolve) => {
        arrive(index, { kind: 'asks', cost, settle: resolve });
      }),
    leave() {
      if (!arrivals.has(index)) arrive(index, { kind: 'left' });
    },
  }));

  function arrive(index: number, arrival: Arrival): void {
    arrivals.set(index, arrival);
    if (arrivals.size === count) void admitAll();
  }

  async function admitAll(): Promise<void> {
    const outcomes: (() => void)[] = [];
    for (let index = 0; index < count; index++) {
      const arrival = arrivals.get(index) as Arrival;
      if (arrival.kind === 'left') continue;
      const outcome = (async () => {
        await admit(arrival.cost);
      })();
      await outcome.catch(() => undefined);
      outcomes.push(() => {
        arrival.settle(outcome);
      });
    }
    for (const release of outcomes) release();
  }
}
