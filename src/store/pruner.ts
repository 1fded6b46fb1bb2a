import { setTimeout as sleep } from 'node:timers/promises';

/** A periodic task. */
export interface Pruner {
  /** Stops the task, and waits for a run in progress. */
  close(): Promise<void>;
}

export interface PrunerOptions {
  /** Deletes what is no longer needed. */
  readonly prune: () => Promise<unknown>;
  /** Called when a run fails. The next run tries again. */
  readonly onError: (error: unknown) => void;
  /** The longest pause between two runs, in milliseconds. The shortest is half of it: instances spread out at random. */
  readonly everyMs?: number;
}

const HOUR_MS = 3_600_000;

/** Starts to prune, about once an hour by default. */
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

  /** Waits without keeping the process alive. Resolves with false once the pruner is closing. */
  function pause(signal: AbortSignal): Promise<boolean> {
    const milliseconds = everyMs * (0.5 + Math.random() / 2);
    return sleep(milliseconds, true, { signal, ref: false }).catch(() => false);
  }
}
