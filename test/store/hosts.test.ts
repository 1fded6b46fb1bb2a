import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.js';
import { createDatabase } from '../support/gateway.js';

const READ = { name: '', text: 'SELECT 1 AS one' };

describe('a database with two hosts', () => {
  let first: FaultProxy;
  let second: FaultProxy;
  let database: Database;
  let drop: () => Promise<void>;

  beforeEach(async () => {
    const created = await createDatabase({ migrated: false });
    ({ drop } = created);
    const url = new URL(created.url);
    const target = { host: url.hostname, port: Number(url.port || 5_432) };
    first = await startFaultProxy(target);
    second = await startFaultProxy(target);
    await second.set('refuse');
    const hosts = `127.0.0.1:${first.port},127.0.0.1:${second.port}`;
    const both = created.url.replace(url.host, hosts);
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
});
