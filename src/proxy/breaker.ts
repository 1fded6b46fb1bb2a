/** Stops requests to an upstream that keeps failing, and detects when it is back. */
export type Breaker = ReturnType<typeof createBreaker>;

/** The breaker opens after this many failures in a row. */
const THRESHOLD = 10;
/** It stays closed until failures have lasted this long, because fifty lookups of one operation fail at once. */
const SUSTAINED_MS = 500;
/** Time between probes while the breaker is open. */
const PROBE_EVERY_MS = 1_000;

export interface BreakerOptions {
  /** Sends the upstream a harmless request; resolves when it answers. */
  readonly probe: () => Promise<unknown>;
  readonly onChange: (isOpen: boolean) => void;
}

/** Creates a breaker. While open, it probes in the background, so no request of a client has to test the upstream. */
export function createBreaker({ probe, onChange }: BreakerOptions) {
  let failures = 0;
  let failingSince = 0;
  let timer: NodeJS.Timeout | undefined;
  let isSuspected = false;
  let isClosed = false;

  return {
    /** While this is true, nothing is sent upstream except probes. */
    get isOpen() {
      return timer !== undefined;
    },
    /** Whether the last request got no answer. */
    get isFailing() {
      return failures > 0 || isSuspected || timer !== undefined;
    },
    /** The upstream answered, with any status. */
    succeeded: recover,
    /** The upstream could not be reached. */
    failed() {
      if (failures === 0) failingSince = performance.now();
      failures += 1;
      if (timer || failures < THRESHOLD || performance.now() - failingSince < SUSTAINED_MS) return;
      open();
    },
    /** The upstream did not answer a request in time. A probe decides whether it answers others. */
    suspect() {
      if (timer || isSuspected) return;
      isSuspected = true;
      void probe()
        .then(recover, open)
        .finally(() => (isSuspected = false));
    },
    close() {
      isClosed = true;
      recover();
    },
  };

  function open(): void {
    if (timer || isClosed) return;
    onChange(true);
    probeLater();
  }

  function probeLater(): void {
    timer = setTimeout(() => {
      probe().then(recover, () => {
        if (timer) probeLater();
      });
    }, PROBE_EVERY_MS);
    timer.unref();
  }

  function recover(): void {
    failures = 0;
    if (!timer) return;
    clearTimeout(timer);
    timer = undefined;
    onChange(false);
  }
}
