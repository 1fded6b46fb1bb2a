import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.js';
import { createDatabase } from '../support/gateway.js';
import { runSql } from '../support/sql.js';

const READ = { name: '', text: 'SELECT 1 AS one' };

describe('a database with two hosts', () => {
  let first: FaultProxy;
  let second: FaultProxy;
  /** Of the server, and of both proxies to it. */
  let url: string;
  let both: string;
  let database: Database;
  let drop: () => Promise<void>;

  beforeEach(async () => {
    ({ drop, url } = await createDatabase({ migrated: false }));
    const { hostname, host, port } = new URL(url);
    const target = { host: hostname, port: Number(port) };
    first = await startFaultProxy(target);
    second = await startFaultProxy(target);
    await second.set('refuse');
    const hosts = `127.0.0.1:${first.port},127.0.0.1:${second.port}`;
    both = url.replace(host, hosts);
    database = createPgDatabase({ url: both, pool: 3, prepare: true });
  });
  afterEach(async () => {
    await database.close();
    await first.close();
    await second.close();
    await drop();
  });

  it.each(['blackhole', 'stall'] as const)('finds the other one when the primary vanishes: %s', async (mode) => {
    expect(await database.query(READ, [])).toEqual([{ one: 1 }]);
    await second.set('pass');
    await first.set(mode);
    const write = { name: '', text: 'CREATE TABLE written ()' };
    await expect(database.query(write, [])).rejects.toMatchObject({ code: 'unavailable' });
    await expect.poll(() => second.accepted, { timeout: 3_000 }).toBeGreaterThan(0);
    await expect.poll(() => database.query(READ, []).catch(() => undefined), { timeout: 5_000 }).toEqual([{ one: 1 }]);
  });

  it('closes a connection to the one that it has left, once its statement is over', async () => {
    const patient = createPgDatabase({ url: both, pool: 3, prepare: true, statementTimeoutMs: 10_000 });
    const slow = patient.query({ name: '', text: 'SELECT pg_sleep(1)' }, []);
    const sleeping = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    await expect.poll(() => runSql(url, sleeping)).toHaveLength(1);
    await second.set('pass');
    await first.set('stall');
    await expect.poll(() => patient.query(READ, []).catch(() => undefined), { timeout: 5_000 }).toEqual([{ one: 1 }]);
    await first.set('pass');
    await slow;
    await expect.poll(() => first.connections, { timeout: 3_000 }).toBe(0);
    await patient.close();
  });
});
