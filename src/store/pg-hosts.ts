import pg from 'pg';

/** How long connecting and the statement may each take. */
const ASK_TIMEOUT_MS = 1_000;

/**
 * Finds the primary among several servers or, while there is none, a server that answers.
 * @param onMove - called when `url` has changed
 */
export function createHosts(urls: readonly string[], onMove: () => void) {
  let url = urls[0] as string;
  let searching: Promise<void> | undefined;

  return {
    url: () => url,
    async search(): Promise<void> {
      if (urls.length > 1) await (searching ??= search().finally(() => (searching = undefined)));
    },
  };

  async function search(): Promise<void> {
    const answers = urls.map(async (candidate) => {
      const [row] = await askOnce(candidate, 'SHOW transaction_read_only', []);
      return { candidate, isPrimary: row?.transaction_read_only === 'off' };
    });
    const primaries = answers.map(async (answer) => ((await answer).isPrimary ? answer : Promise.reject(new Error())));
    // A server that refuses says more than one that does not answer.
    const findRefusing = ({ errors }: AggregateError) => ({
      candidate: urls[errors.findIndex((error) => error instanceof pg.DatabaseError)],
    });
    const { candidate } = await Promise.any(primaries).catch(() => Promise.any(answers).catch(findRefusing));
    if (candidate === undefined || candidate === url) return;
    url = candidate;
    onMove();
  }
}

/** Runs one statement on a connection of its own. */
export async function askOnce(url: string, text: string, values: unknown[]): Promise<Record<string, unknown>[]> {
  const timeouts = { connectionTimeoutMillis: ASK_TIMEOUT_MS, query_timeout: ASK_TIMEOUT_MS };
  const client = new pg.Client({ connectionString: url, ...timeouts }).on('error', () => undefined);
  try {
    await client.connect();
    return (await client.query<Record<string, unknown>>(text, values)).rows;
  } finally {
    client.end().catch(() => undefined);
  }
}
