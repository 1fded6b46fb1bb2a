import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Database } from './database.js';

/** A write that takes longer than this shows that writes are stalled. */
const STALLED_MS = 1_000;

/**
 * Wraps the database of the animals so that stalled writes do not keep reads from it. A commit may hang, for example if
 * it waits for a standby that is lost. From then on, writes are refused at once, except for one at a time that finds
 * out whether they work again.
 * @param pool - the connections of the database, of which a fifth is left to reads
 */
export function guardWrites(database: Database, pool: number, log: Log): Database {
  const max = Math.max(1, pool - Math.ceil(pool / 5));
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
    const timer = setTimeout(stall, STALLED_MS);
    try {
      const result = await run();
      if (isStalled) log.warn('the database writes again');
      isStalled = false;
      return result;
    } finally {
      clearTimeout(timer);
      running -= 1;
      waiting.shift()?.start();
    }
  }

  function stall(): void {
    if (!isStalled) log.warn('the database does not complete writes: they are refused');
    isStalled = true;
    for (const { refuse } of waiting) refuse(stalled());
    waiting = [];
  }
}

function stalled(): StoreError {
  return new StoreError('unavailable', 'The store cannot write at the moment. Try again shortly.', { retryAfter: 1 });
}
