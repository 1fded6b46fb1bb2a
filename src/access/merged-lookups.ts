import DataLoader from 'dataloader';

/** Lookups of one statement at the most. */
const MAX_MERGED = 1_000;
/** How long lookups wait for the statement before theirs, in milliseconds, since one slow statement must not make others late. */
const MAX_HELD_MS = 20;

/**
 * Merges what is looked up in the same turn of the event loop, or while a statement is under way.
 * @param findMany - finds several at once, in the order of the keys
 */
export function createMergedLookups<Key, Found>(
  findMany: (keys: readonly Key[]) => Promise<readonly Found[]>,
): (key: Key) => Promise<Found> {
  let underWay = 0;
  let release: (() => void) | undefined;

  const loader = new DataLoader<Key, Found>(
    async (keys) => {
      underWay += 1;
      try {
        return await findMany(keys);
      } finally {
        underWay -= 1;
        release?.();
      }
    },
    {
      cache: false,
      maxBatchSize: MAX_MERGED,
      batchScheduleFn(dispatch) {
        // What is looked up from here on until `dispatch` is called joins in.
        if (underWay === 0) {
          setImmediate(dispatch);
          return;
        }
        const timer = setTimeout(start, MAX_HELD_MS);
        release = start;
        function start(): void {
          clearTimeout(timer);
          release = undefined;
          dispatch();
        }
      },
    },
  );
  return (key) => loader.load(key);
}
