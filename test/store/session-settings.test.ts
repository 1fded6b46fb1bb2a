import { afterAll, beforeAll, describe, expect, inject, it, vi } from 'vitest';
import { createDatabase, startGateway, type Gateway } from '../support/gateway.js';
import { runSql } from '../support/sql.js';

/** What an operator may have set for a database, and what the program must not depend on. */
const SETTINGS = [
  ['DateStyle', 'SQL, DMY'],
  ['DateStyle', 'German'],
  ['DateStyle', 'Postgres, MDY'],
  ['IntervalStyle', 'sql_standard'],
  ['TimeZone', 'Asia/Kathmandu'],
  ['bytea_output', 'escape'],
  ['client_encoding', 'LATIN1'],
  ['extra_float_digits', '-15'],
  ['array_nulls', 'off'],
  ['standard_conforming_strings', 'off'],
  ['default_transaction_isolation', 'serializable'],
] as const;

// Without prepared statements, no setting can be sent, as behind a pooler.
describe.each(['true', 'false'])('DATABASE_PREPARE=%s', (prepare) => {
  describe.each(SETTINGS)('%s = %s', (name, value) => {
    let gateway: Gateway;
    let database: { url: string; drop: () => Promise<void> };

    beforeAll(async () => {
      database = await createDatabase();
      const { pathname } = new URL(database.url);
      const quoted = name === 'DateStyle' ? value : `'${value}'`;
      await runSql(inject('postgresUrl'), `ALTER DATABASE ${pathname.slice(1)} SET ${name} = ${quoted}`);
      gateway = await startGateway('server', { DATABASE_URL: database.url, DATABASE_PREPARE: prepare });
    });
    afterAll(async () => {
      await gateway.close();
      await database.drop();
    });

    it('refuses revoked and expired keys, serves others and lists all', async () => {
      const read = async (key: string): Promise<number> =>
        (await gateway.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } })).status;
      const valid = await gateway.createKey({ expiresAt: new Date(Date.now() + 60_000) });
      const expired = await gateway.createKey({ expiresAt: new Date(Date.now() - 60_000) });
      const revoked = await gateway.createKey();
      await gateway.keys.revoke(revoked.id, 'test');
      const statuses = [await read(valid.key), await read(expired.key), await read(revoked.key)];
      expect(statuses).toEqual([200, 401, 401]);
      const listed = await gateway.keys.list({ limit: 10 });
      expect(listed.find(({ id }) => id === valid.id)?.expiresAt).toEqual(valid.expiresAt);
      expect(listed.find(({ id }) => id === revoked.id)?.revokedAt).toBeInstanceOf(Date);
      expect((await gateway.keys.listEvents({ limit: 1 }))[0]?.at).toBeInstanceOf(Date);
    });

    it('adds and reads animals at the same moment, with any name', async () => {
      const { key } = await gateway.createKey();
      const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
      const adding = Array.from({ length: 20 }, async (_, n) => {
        const body = JSON.stringify({ name: `Žofka 🐈 \\ ${n}`, categoryId: n });
        const init = { method: 'POST', headers: n % 2 ? headers : { ...headers, 'Idempotency-Key': 'one' }, body };
        return (await gateway.fetch('/v1/pets', init)).status;
      });
      const statuses = await Promise.all(adding);
      expect(statuses.filter((status) => status >= 500)).toEqual([]);
      expect(await (await gateway.fetch('/v1/pets', { headers })).text()).toContain('Žofka 🐈');
    });
  });
});

it.each(['true', 'false'])(
  'a key in use is refused once it is revoked, though no trigger runs by default, DATABASE_PREPARE=%s',
  async (prepare) => {
    const database = await createDatabase();
    const { pathname } = new URL(database.url);
    await runSql(inject('postgresUrl'), `ALTER DATABASE ${pathname.slice(1)} SET session_replication_role = replica`);
    const gateway = await startGateway('server', { DATABASE_URL: database.url, DATABASE_PREPARE: prepare });
    const { id, key } = await gateway.createKey();
    const read = async (): Promise<number> =>
      (await gateway.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } })).status;
    expect(await read()).toBe(200);
    await gateway.keys.revoke(id, 'test');
    await vi.waitFor(async () => expect(await read()).toBe(401), { timeout: 5_500, interval: 200 });
    await gateway.close();
    await database.drop();
  },
  20_000,
);
