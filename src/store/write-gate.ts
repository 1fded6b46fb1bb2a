import { StoreError } from '../errors.js';
import type { Database } from './database.js';

export interface WriteGateOptions {
  /** The most writes at a time. The other connections of the pool are left to reads. */
  readonly max: number;
  /** Called when writes stop, and when they work again. */
  readonly onChange: (isStalled: boolean) => void;
  /** A write that takes longer than this shows that writes are stalled, in milliseconds. */
  readonly stalledMs?: number;
}

/**
 * Wraps the database of the animals so that stalled writes do not keep reads from it. A commit may hang, for example if
 * it waits for a standby that is lost. From then on, writes are refused at once, except for one at a time that finds
 * out whether they work again.
 */
export function guardWrites(database: Database, { max, onChange, stalledMs = 1_000 }: WriteGateOptions): Database {
  let running = 0;
  let isStalled = false;
  let waiting: { readonly start: () => void; readonly refuse: (error: StoreError) => void }[] = [];

  return {
    ...database,
    query: (statement, values, parent) =>
      statement.text.startsWith('SELECT')
        ? database.query(statement, values, parent)
        : write(() => database.query(statement, values, parent)),
  };

  async function write<T>(run: () => Promise<T>): Promise<T> {
    if (isStalled && running > 0) throw stalled();
    if (running >= max) await new Promise<void>((start, refuse) => waiting.push({ start, refuse }));
    running += 1;
    const timer = setTimeout(stall, stalledMs);
    try {
      const result = await run();
      if (isStalled) onChange(false);
      isStalled = false;
      return result;
    } finally {
      clearTimeout(timer);
      running -= 1;
      waiting.shift()?.start();
    }
  }

  function stall(): void {
    if (!isStalled) onChange(true);
    isStalled = true;
    for (const { refuse } of waiting) refuse(stalled());
    waiting = [];
  }
}

function stalled(): StoreError {
  return new StoreError('unavailable', 'The store cannot write at the moment. Try again shortly.', { retryAfter: 1 });
}
