/** Stops asking an upstream that keeps failing, and finds out when it is back. */
export interface Breaker {
  readonly isOpen: boolean;
  /** The upstream answered, whatever it was. */
  succeeded(): void;
  /** The upstream could not be reached, or did not answer in time. */
  failed(): void;
  close(): void;
}

export interface BreakerOptions {
  /** Asks the upstream something harmless; resolves when it answers. */
  readonly probe: () => Promise<unknown>;
  /** Failures in a row that open it, */
  readonly threshold?: number;
  /** if the first of them is this long ago, in milliseconds: fifty lookups of one slow operation fail at once. */
  readonly sustainedMs?: number;
  /** Time between probes while it is open. */
  readonly probeEveryMs?: number;
  readonly onChange?: (isOpen: boolean) => void;
}

/** Makes a breaker. While it is open it probes by itself, so that no user's request has to be the one that tries. */
export function createBreaker({
  probe,
  threshold = 10,
  sustainedMs = 500,
  probeEveryMs = 1_000,
  onChange,
}: BreakerOptions): Breaker {
  let failures = 0;
  let failingSince = 0;
  let timer: NodeJS.Timeout | undefined;

  return {
    get isOpen() {
      return timer !== undefined;
    },
    succeeded() {
      failures = 0;
      shut();
    },
    failed() {
      if (failures === 0) failingSince = performance.now();
      failures += 1;
      if (timer || failures < threshold || performance.now() - failingSince < sustainedMs) return;
      onChange?.(true);
      probeLater();
    },
    close: shut,
  };

  function probeLater(): void {
    timer = setTimeout(() => {
      probe().then(
        () => {
          failures = 0;
          shut();
        },
        () => {
          if (timer) probeLater();
        },
      );
    }, probeEveryMs);
    timer.unref();
  }

  function shut(): void {
    if (!timer) return;
    clearTimeout(timer);
    timer = undefined;
    onChange?.(false);
  }
}
