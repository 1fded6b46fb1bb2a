import { setTimeout as sleep } from 'node:timers/promises';

/** Something that is done from time to time, until it is closed. */
export interface Pruner {
  /** Waits for what is under way. */
  close(): Promise<void>;
}

export interface PrunerOptions {
  /** Throws away what is no longer needed. */
  readonly prune: () => Promise<unknown>;
  /** Told why it failed; the next time it is tried again. */
  readonly onError: (error: unknown) => void;
  /** The time between two runs, in milliseconds: at random from half of it, so that instances spread out. */
  readonly everyMs?: number;
}

const HOUR_MS = 3_600_000;

/** Prunes about once an hour. */
export function startPruner({ prune, onError, everyMs = HOUR_MS }: PrunerOptions): Pruner {
  const closing = new AbortController();
  const running = run();
  return {
    async close() {
      closing.abort();
      await running;
    },
  };

  async function run(): Promise<void> {
    const { signal } = closing;
    while (await pause(signal)) await prune().catch(onError);
  }

  /** Waits without keeping the process alive; false when it is time to end. */
  function pause(signal: AbortSignal): Promise<boolean> {
    const milliseconds = everyMs * (0.5 + Math.random() / 2);
    return sleep(milliseconds, true, { signal, ref: false }).catch(() => false);
  }
}
