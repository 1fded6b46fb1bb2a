import { setTimeout as sleep } from 'node:timers/promises';

export interface RepeatOptions {
  readonly run: () => Promise<unknown>;
  /** Returns the pause before the next run, in milliseconds. */
  readonly pauseMs: () => number;
  /** Called when a run fails. The next run tries again. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Runs a task again and again, without keeping the process alive. A pause comes first.
 * @returns a function that stops the task, and waits for a run in progress
 */
export function repeat({ run, pauseMs, onError }: RepeatOptions): () => Promise<void> {
  const closing = new AbortController();
  const options = { signal: closing.signal, ref: false };
  const running = runUntilClosed();
  return async () => {
    closing.abort();
    await running;
  };

  async function runUntilClosed(): Promise<void> {
    while (await sleep(pauseMs(), true, options).catch(() => false)) await run().catch(onError);
  }
}
