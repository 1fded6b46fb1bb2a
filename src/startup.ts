import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError } from './config.js';
import { StoreError } from './errors.js';
import type { Log } from './observability/log.js';

export type WaitUntilAvailable = ReturnType<typeof createStartupWait>;

const RETRY_MS = 500;

/**
 * Creates the function with which the program waits for what it depends on. The log says once that it waits.
 * @param timeoutMs - how long to wait, for everything together
 */
export function createStartupWait(log: Log, timeoutMs: number, signal?: AbortSignal) {
  const deadline = performance.now() + timeoutMs;
  /**
   * @param what - the variable and what it names
   * @param attempt - throws a StoreError while it is unavailable
   * @throws ConfigError if it is still unavailable at the end of the time; any other error of `attempt`
   */
  return async <T>(what: string, attempt: () => Promise<T>): Promise<T> => {
    for (let hasWaited = false; ; hasWaited = true) {
      try {
        const result = await attempt();
        if (hasWaited) log.info(`${what} that is available now`);
        return result;
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        const remaining = deadline - performance.now();
        const reason = reasonOf(error);
        if (remaining <= 0) {
          throw new ConfigError(`${what} that cannot be reached: ${reason} (waited for ${timeoutMs / 1_000} s)`);
        }
        if (!hasWaited) log.warn({ reason, timeoutMs }, `${what} that cannot be reached: waiting for it`);
        await sleep(Math.min(RETRY_MS, remaining), undefined, { signal });
      }
    }
  };
}

/** Operators need the cause, which clients do not see. */
function reasonOf({ message, cause }: StoreError): string {
  if (!(cause instanceof Error)) return message;
  return cause.message || ((cause as NodeJS.ErrnoException).code ?? message);
}
