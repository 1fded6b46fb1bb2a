export type Breaker = ReturnType<typeof createBreaker>;

const OPEN_AFTER_MS = 500;
const TRY_EVERY_MS = 1_000;

/** Creates a breaker, which stops requests to an upstream once connecting to it has failed for a while. */
export function createBreaker(onChange: (isOpen: boolean) => void) {
  let isOpen = false;
  let failingSince: number | undefined;
  let triedAt = 0;
  return {
    get isOpen() {
      return isOpen;
    },
    /** Whether a request may be sent now: while it is open, one a second. */
    mayTry(): boolean {
      if (!isOpen) return true;
      const now = performance.now();
      if (now - triedAt < TRY_EVERY_MS) return false;
      triedAt = now;
      return true;
    },
    /** The upstream answered, in any way. */
    answered(): void {
      failingSince = undefined;
      if (isOpen) onChange((isOpen = false));
    },
    /** There was no connection. */
    failed(): void {
      const now = performance.now();
      failingSince ??= now;
      if (isOpen || now - failingSince < OPEN_AFTER_MS) return;
      triedAt = now;
      onChange((isOpen = true));
    },
  };
}
