export type Breaker = ReturnType<typeof createBreaker>;

/** How long after a failure a probe tests the upstream, unless a request has been answered until then. */
const DOUBT_MS = 500;
/** Time between probes while the breaker is open. */
const PROBE_EVERY_MS = 1_000;

/**
 * Creates a breaker, which stops requests to an upstream that does not answer, and detects when it is back. Only probes
 * open it, so that the requests of one key cannot. While it is open, they continue, so no request of a client has to
 * test the upstream.
 * @param probe - sends the upstream a harmless request; resolves when it answers
 */
export function createBreaker(probe: () => Promise<unknown>, onChange: (isOpen: boolean) => void) {
  let isOpen = false;
  /** That of the last probe. Undefined while the upstream answers. */
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  return {
    /** While this is true, nothing is sent upstream except probes. */
    get isOpen() {
      return isOpen;
    },
    /** Whether the upstream has failed since it last answered. */
    get isFailing() {
      return timer !== undefined;
    },
    /** The upstream answered, with any status. */
    succeeded: recover,
    /** The upstream could not be reached, or did not answer in time. */
    failed() {
      if (!timer) probeAfter(DOUBT_MS);
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
      timer = undefined;
    },
  };

  function probeAfter(milliseconds: number): void {
    if (isClosed) return;
    const current = setTimeout(() => {
      probe().then(recover, () => {
        const hasRecovered = timer !== current;
        if (hasRecovered) return;
        if (!isOpen) onChange((isOpen = true));
        probeAfter(PROBE_EVERY_MS);
      });
    }, milliseconds).unref();
    timer = current;
  }

  function recover(): void {
    if (!timer) return;
    clearTimeout(timer);
    timer = undefined;
    if (isOpen) onChange((isOpen = false));
  }
}
