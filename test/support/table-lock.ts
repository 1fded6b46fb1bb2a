import pg from 'pg';
import { until } from './process.js';
import { runSql } from './sql.js';

/** Runs `work` while another connection has locked a table, so that every statement on it waits. */
export async function whileLocked<T>(url: string, work: () => Promise<T>, table = 'pets'): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
    return await work();
  } finally {
    await client.end();
  }
}

export const statementWaits = (url: string): Promise<void> =>
  until('a statement waits for the table', async () => (await findWaiting(url)).length > 0);

export const noStatementWaits = (url: string): Promise<void> =>
  until('no statement waits for the table', async () => (await findWaiting(url)).length === 0);

/** On a connection of its own: within one transaction, PostgreSQL shows the same activity again and again. */
function findWaiting(url: string): Promise<object[]> {
  const text = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  return runSql(url, text);
}
