const MAX_SIZE = 1_000;
/** The longest time that items wait for a running batch, in milliseconds. */
const MAX_HELD_MS = 20;

/** Adds an item to the next batch. Resolves to its answer. */
export type Batcher<Item, Answer> = (item: Item) => Promise<Answer>;

export interface BatcherOptions<Item, Answer> {
  /**
   * @returns one answer per item, in the same order. An `Error` rejects only its own item.
   * @throws an error that rejects every item
   */
  readonly run: (items: readonly Item[]) => Promise<readonly (Answer | Error)[]>;
  /** 1 by default. The size of a batch is at most 1,000. */
  readonly sizeOf?: (item: Item) => number;
  /** Whether `run` keeps the event loop busy, so that no request can arrive while it runs. */
  readonly isBlocking?: boolean;
  /** Called before dispatch. The item is left out if there is an error. */
  readonly findCancellation?: (item: Item) => Error | undefined;
}

/**
 * Batches the items that arrive in one pass of the event loop, or while the previous batch is running, but holds them
 * for at most 20 ms. An item never joins a dispatched batch, so a read sees every write that was answered before the
 * read arrived.
 */
export function createBatcher<Item, Answer>({
  run,
  sizeOf = () => 1,
  isBlocking = false,
  findCancellation = () => undefined,
}: BatcherOptions<Item, Answer>): Batcher<Item, Answer> {
  interface Queued {
    readonly item: Item;
    readonly resolve: (answer: Answer) => void;
    readonly reject: (error: unknown) => void;
  }

  let waiting: Queued[] = [];
  let running = 0;
  let isScheduled = false;
  let hasCompany = isBlocking;
  let timer: NodeJS.Timeout | undefined;

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (running === 0) schedule();
      else timer ??= setTimeout(dispatch, MAX_HELD_MS);
    });

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    // When an immediate runs, every request that has arrived has added its items. A lone client need not wait for it.
    if (hasCompany) setImmediate(dispatch);
    else process.nextTick(dispatch);
  }

  function dispatch(): void {
    isScheduled = false;
    clearTimeout(timer);
    timer = undefined;
    const due = waiting;
    waiting = [];
    hasCompany = isBlocking || due.length > 1;
    let batch: Queued[] = [];
    let size = 0;
    for (const one of due) {
      const cancellation = findCancellation(one.item);
      if (cancellation) {
        one.reject(cancellation);
        continue;
      }
      const added = sizeOf(one.item);
      if (size + added > MAX_SIZE && batch.length > 0) {
        void send(batch);
        batch = [];
        size = 0;
      }
      batch.push(one);
      size += added;
    }
    if (batch.length > 0) void send(batch);
  }

  async function send(batch: readonly Queued[]): Promise<void> {
    running += 1;
    try {
      const answers = await run(batch.map(({ item }) => item));
      batch.forEach(({ resolve, reject }, index) => {
        const answer = answers[index] as Answer | Error;
        if (answer instanceof Error) reject(answer);
        else resolve(answer);
      });
    } catch (error) {
      for (const { reject } of batch) reject(error);
    } finally {
      running -= 1;
      if (waiting.length > 0) schedule();
    }
  }
}
