import pg from 'pg';

const ANSWER_MS = 1_000;
const SEARCH_EVERY_MS = 1_000;

/**
 * Creates the choice among PostgreSQL servers, of which one accepts writes. A single one is always the choice.
 * @param onMove - called when another server has become the one to connect to
 */
export function createHosts(urls: readonly string[], onMove: () => void) {
  let url = urls[0] as string;
  let searching: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  return {
    /** The URL to connect to: that of the primary or, while there is none, of a standby that answers. */
    url: () => url,
    async search(): Promise<void> {
      if (urls.length > 1) await search();
    },
    close(): void {
      isClosed = true;
      clearTimeout(timer);
    },
  };

  function search(): Promise<void> {
    clearTimeout(timer);
    searching ??= find().finally(() => (searching = undefined));
    return searching;
  }

  async function find(): Promise<void> {
    const answers = urls.map(async (candidate) => ({ candidate, isPrimary: await isPrimary(candidate) }));
    const primaries = answers.map(async (answer) => ((await answer).isPrimary ? answer : Promise.reject(new Error())));
    const found = await Promise.any(primaries).catch(() => Promise.any(answers).catch(() => undefined));
    if (!found?.isPrimary && !isClosed) timer = setTimeout(() => void search(), SEARCH_EVERY_MS).unref();
    if (!found || found.candidate === url) return;
    url = found.candidate;
    onMove();
  }
}

async function isPrimary(url: string): Promise<boolean> {
  const rows = await askOnce(url, ANSWER_MS, 'SHOW transaction_read_only', []);
  return (rows[0] as { transaction_read_only: string }).transaction_read_only === 'off';
}

/** Runs one statement on a connection of its own. Connecting and the statement may each take `timeoutMs`. */
export async function askOnce(url: string, timeoutMs: number, text: string, values: unknown[]): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: timeoutMs, query_timeout: timeoutMs });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return (await client.query(text, values)).rows as unknown[];
  } finally {
    void client.end().catch(() => undefined);
  }
}
