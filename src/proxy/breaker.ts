export type Breaker = ReturnType<typeof createBreaker>;

const OPEN_AFTER_MS = 500;
const TRY_EVERY_MS = 1_000;

/**
 * Creates a breaker, which stops requests to an upstream once failures have continued for a while without an answer.
 * The timeouts of one key alone do not open it: its requests may just be slow.
 */
export function createBreaker(onChange: (isOpen: boolean) => void) {
  let isOpen = false;
  let failingSince: number | undefined;
  let slowKey: string | undefined;
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
    /** The upstream answered, with any status. */
    succeeded(): void {
      failingSince = slowKey = undefined;
      if (isOpen) onChange((isOpen = false));
    },
    /** @param keyId - the key of a request that timed out; undefined if there was no connection */
    failed(keyId?: string): void {
      slowKey ??= keyId;
      if (keyId !== undefined && keyId === slowKey) return;
      const now = performance.now();
      failingSince ??= now;
      if (isOpen || now - failingSince < OPEN_AFTER_MS) return;
      triedAt = now;
      onChange((isOpen = true));
    },
  };
}
