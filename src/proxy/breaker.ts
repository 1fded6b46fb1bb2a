/** Stops requests to an upstream that keeps failing, and detects when it is back. */
export interface Breaker {
  /** While this is true, nothing is sent upstream except probes. */
  readonly isOpen: boolean;
  /** The upstream answered, with any status. */
  succeeded(): void;
  /** The upstream could not be reached. */
  failed(): void;
  /** The upstream did not answer a request in time. Whether it answers others decides a probe. */
  suspect(): void;
  close(): void;
}

export interface BreakerOptions {
  /** Sends the upstream a harmless request; resolves when it answers. */
  readonly probe: () => Promise<unknown>;
  readonly onChange?: (isOpen: boolean) => void;
}

/** The breaker opens after this many failures in a row. */
const THRESHOLD = 10;
/** It stays closed until the failures have lasted this long, because fifty lookups of one slow operation fail at once. */
const SUSTAINED_MS = 500;
/** Time between probes while the breaker is open. */
const PROBE_EVERY_MS = 1_000;

/** Creates a breaker. While it is open, it sends probes in the background, so no client's request has to test the upstream. */
export function createBreaker({ probe, onChange }: BreakerOptions): Breaker {
  let failures = 0;
  let failingSince = 0;
  let timer: NodeJS.Timeout | undefined;
  let isSuspected = false;
  let isClosed = false;

  return {
    get isOpen() {
      return timer !== undefined;
    },
    succeeded: recover,
    failed() {
      if (failures === 0) failingSince = performance.now();
      failures += 1;
      if (timer || failures < THRESHOLD || performance.now() - failingSince < SUSTAINED_MS) return;
      open();
    },
    suspect() {
      if (timer || isSuspected) return;
      isSuspected = true;
      void probe()
        .then(recover, open)
        .finally(() => (isSuspected = false));
    },
    close() {
      isClosed = true;
      stopProbing();
    },
  };

  function open(): void {
    if (timer || isClosed) return;
    onChange?.(true);
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
    stopProbing();
  }

  function stopProbing(): void {
    if (!timer) return;
    clearTimeout(timer);
    timer = undefined;
    onChange?.(false);
  }
}
