export type Breaker = ReturnType<typeof createBreaker>;

const OPEN_AFTER_MS = 500;
const TRY_EVERY_MS = 1_000;

/**
 * Creates a breaker, which stops requests to an upstream once failures have continued for a while without an answer.
 * The failures of one key alone do not open it, unless there is no connection: only its requests may fail.
 */
export function createBreaker(onChange: (isOpen: boolean) => void) {
  let isOpen = false;
  let failingSince: number | undefined;
  let failingKey: string | undefined;
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
      failingSince = failingKey = undefined;
      if (isOpen) onChange((isOpen = false));
    },
    /** @param keyId - the key of a request that got no answer; undefined if there was no connection */
    failed(keyId?: string): void {
      failingKey ??= keyId;
      if (keyId !== undefined && keyId === failingKey) return;
      const now = performance.now();
      failingSince ??= now;
      if (isOpen || now - failingSince < OPEN_AFTER_MS) return;
      triedAt = now;
      onChange((isOpen = true));
    },
  };
}
