import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Database, Statement } from '../../src/store/database.js';
import { migrate } from '../../src/store/migrate.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { openPgliteDatabase } from '../../src/store/embedded-store.js';
import { createPostgresUsage } from '../../src/store/postgres-usage.js';
import { createDatabase } from '../support/gateway.js';

describe('pruning the usage', () => {
  let embedded: Database;
  let server: Database;
  let drop: () => Promise<void>;

  beforeAll(async () => {
    const created = await createDatabase();
    drop = created.drop;
    // On a busy machine, preparing 50,000 rows takes longer than a request may.
    server = createPgDatabase({ url: created.url, pool: 4, prepare: true, statementTimeoutMs: 60_000 });
    embedded = await openPgliteDatabase('memory://');
    await migrate(server);
    await migrate(embedded);
  });
  afterAll(async () => {
    await embedded.close();
    await server.close();
    await drop();
  });

  it.each(['PGlite', 'a PostgreSQL server'])(
    'turns few rows into days at a time on %s, and forgets old days even if that fails',
    async (kind) => {
      const database = kind === 'PGlite' ? embedded : server;
      const query = <Row>(text: string): Promise<Row[]> => database.query<Row>({ name: '', text }, []);
      await query(`
      INSERT INTO usage
      SELECT 'key_' || key, date_trunc('day', now(), 'UTC') - interval '9 days' + hour * interval '1 hour', 1,
             'client ' || name, 'Q', '', 1, 1, 0, 0, now() - interval '9 days'
      FROM generate_series(1, 30) AS key, generate_series(0, 23) AS hour, generate_series(1, 12) AS name`);
      await query(
        `INSERT INTO usage SELECT 'key_old', now() - interval '400 days', 24, '', 'Q', '', 1, 1, 0, 0, now()`,
      );
      const countHours = async (): Promise<number> =>
        (await query<{ count: number }>('SELECT count(*)::int AS count FROM usage WHERE hours = 1'))[0]?.count ?? NaN;
      const left = [await countHours()];
      let failsAt = 2;
      const watched = createPostgresUsage({
        async query<Row>(...[statement, values]: Parameters<Database['query']>) {
          const isToDays = statement.name.startsWith('usage-to-days');
          if (isToDays && left.length === failsAt) throw new Error('canceled');
          const rows = await database.query<Row>(statement, values);
          if (isToDays) left.push(await countHours());
          return rows;
        },
      });
      await expect(watched.prune()).rejects.toThrow('canceled');
      expect(await query("SELECT FROM usage WHERE key_id = 'key_old'")).toEqual([]);
      failsAt = NaN;
      await watched.prune();
      expect(left.at(-1)).toBe(0);
      // Each key and day has 288 rows. Seven of them are the first to exceed 2,000.
      for (const [i, rows] of left.entries()) expect((left[i - 1] ?? rows) - rows).toBeLessThanOrEqual(7 * 288);
      expect(await query('SELECT sum(requests)::int AS sum FROM usage')).toEqual([{ sum: 30 * 24 * 12 }]);
    },
  );

  it('reads only what it turns into days, of however many rows', async () => {
    const query = <Row>(text: string): Promise<Row[]> => server.query<Row>({ name: '', text }, []);
    await query('DELETE FROM usage');
    await query(`
      INSERT INTO usage SELECT 'key_' || key, now() - interval '9 days', 1, '', 'Q', '', 1, 1, 0, 0, now()
      FROM generate_series(1, 50000) AS key`);
    await query('ANALYZE usage');
    const costs: number[] = [];
    const explained = createPostgresUsage({
      async query<Row>({ text }: Statement) {
        interface Explained {
          'QUERY PLAN': [{ Plan: { 'Total Cost': number } }];
        }
        const [row] = await query<Explained>(`EXPLAIN (GENERIC_PLAN, FORMAT JSON) ${text}`);
        costs.push(row?.['QUERY PLAN'][0].Plan['Total Cost'] ?? NaN);
        return [] as Row[];
      },
    });
    await explained.prune();
    // Reading all 50,000 rows costs more. Above 100,000, PostgreSQL would also compile the plan, which takes a second.
    expect(costs[0]).toBeLessThan(5_000);
  });
});
