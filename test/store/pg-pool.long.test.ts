import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { Database } from '../../src/store/database.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { createDatabase } from '../support/gateway.js';

const WAIT = { name: 'wait', text: 'SELECT pg_sleep(0.05)' };
const END_OTHERS = {
  name: 'end-others',
  text: `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()`,
};
const onConnectionError = vi.fn();
let server: Awaited<ReturnType<typeof createDatabase>>;
let database: Database;

beforeAll(async () => {
  server = await createDatabase();
  database = createPgDatabase({ url: server.url, pool: 4, prepare: true, onConnectionError });
});
afterAll(() => server.drop());

const run = (count: number) => Promise.all(Array.from({ length: count }, () => database.query(WAIT, [])));

it('opens as many connections as it may, and keeps them', async () => {
  await run(8);
  expect(database.connections?.()).toEqual({ used: 0, idle: 4, waiting: 0, max: 4 });
  expect(onConnectionError).not.toHaveBeenCalled();
});

it('reports idle connections that the server ends, and uses others', async () => {
  await run(4);
  await database.query(END_OTHERS, []);
  await expect.poll(() => onConnectionError.mock.calls.length).toBe(3);
  expect(database.connections?.()).toMatchObject({ used: 0, idle: 1 });
  expect(await run(3)).toHaveLength(3);
});

it('closes a connection in use after its statement, and opens no other', async () => {
  const last = run(1);
  await database.close();
  expect(await last).toHaveLength(1);
  expect(database.connections?.()).toMatchObject({ used: 0, idle: 0 });
  await expect(run(1)).rejects.toMatchObject({ code: 'unavailable' });
});
