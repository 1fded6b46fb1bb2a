const MAX_SIZE = 1_000;
/** The longest time that entries wait for a running batch, in milliseconds. */
const MAX_HELD_MS = 20;

/** Adds an entry to the next batch. Resolves to the answer to that entry. */
export type Batcher<Entry, Answer> = (entry: Entry) => Promise<Answer>;

export interface BatcherOptions<Entry, Answer> {
  /**
   * Answers a batch.
   * @returns one answer per entry, in the same order. An `Error` rejects only its own entry.
   * @throws an error that rejects every entry of the batch
   */
  readonly run: (entries: readonly Entry[]) => Promise<readonly (Answer | Error)[]>;
  /** Returns the size of an entry, 1 by default. The size of a batch is at most 1,000. */
  readonly sizeOf?: (entry: Entry) => number;
  /** Whether `run` keeps the event loop busy, so that no request can arrive while it runs. */
  readonly isBlocking?: boolean | undefined;
  /** Called before dispatch. If it returns an error, the entry is rejected with it and left out of the batch. */
  readonly findCancellation?: (entry: Entry) => Error | undefined;
}

/**
 * Batches the entries that arrive in one pass of the event loop, or while the previous batch is running, but holds them
 * for at most 20 ms. An entry never joins a dispatched batch, so a read sees every write that was answered before the
 * read arrived.
 */
export function createBatcher<Entry, Answer>({
  run,
  sizeOf = () => 1,
  isBlocking = false,
  findCancellation = () => undefined,
}: BatcherOptions<Entry, Answer>): Batcher<Entry, Answer> {
  interface Waiting {
    readonly entry: Entry;
    readonly resolve: (answer: Answer) => void;
    readonly reject: (error: unknown) => void;
  }

  let waiting: Waiting[] = [];
  let running = 0;
  let isScheduled = false;
  let hasCompany = isBlocking;
  let timer: NodeJS.Timeout | undefined;

  return (entry) =>
    new Promise((resolve, reject) => {
      waiting.push({ entry, resolve, reject });
      if (running === 0) schedule();
      else timer ??= setTimeout(dispatch, MAX_HELD_MS);
    });

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    // When an immediate runs, every request that has arrived has added its entries. A lone client does not
    // wait for it.
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
    let batch: Waiting[] = [];
    let size = 0;
    for (const one of due) {
      const cancellation = findCancellation(one.entry);
      if (cancellation) {
        one.reject(cancellation);
        continue;
      }
      const added = sizeOf(one.entry);
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

  async function send(batch: readonly Waiting[]): Promise<void> {
    running += 1;
    try {
      const answers = await run(batch.map(({ entry }) => entry));
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
