import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.js';
import { openPgliteDatabase } from '../../src/store/embedded-store.js';
import { migrate } from '../../src/store/migrate.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { createDatabase } from '../support/gateway.js';

const MIGRATIONS = fileURLToPath(new URL('../../migrations', import.meta.url));

describe.each(['PGlite', 'a PostgreSQL server'])('the migration to usage by day on %s', (kind) => {
  let database: Database;
  let before: string;
  let drop: (() => Promise<void>) | undefined;

  beforeAll(async () => {
    before = await mkdtemp(join(tmpdir(), 'migrations-'));
    await cp(MIGRATIONS, before, { recursive: true, filter: (file) => !/0(?:0[6-9]|1\d)\.do\./.test(file) });
    if (kind === 'PGlite') database = await openPgliteDatabase('memory://');
    else {
      const created = await createDatabase({ migrated: false });
      drop = created.drop;
      database = createPgDatabase({ url: created.url, pool: 1, prepare: true });
    }
  });
  afterAll(async () => {
    await database.close();
    await drop?.();
    await rm(before, { recursive: true });
  });

  it('keeps what was counted, added up by day', async () => {
    const query = (text: string): Promise<object[]> => database.query({ name: '', text }, []);
    await migrate(database, { folder: before });
    await query(`INSERT INTO usage VALUES
      ('key_1', '2026-05-01 00:00Z', 1, 'a', 'Q', '', 1, 10, 1, 0, '2026-05-01 00:30Z'),
      ('key_1', '2026-05-01 23:00Z', 1, 'a', 'Q', '', 2, 20, 0, 1, '2026-05-01 23:30Z'),
      ('key_1', '2026-05-01 23:00Z', 1, 'b', 'Q', '', 1, 1, 0, 0, '2026-05-01 23:10Z'),
      ('key_1', '2026-05-02 00:00Z', 1, 'a', 'Q', '', 4, 40, 0, 0, '2026-05-02 00:10Z'),
      ('key_1', '2026-05-01 00:00Z', 24, 'a', 'Q', '', 8, 80, 0, 0, '2026-05-01 12:00Z')`);
    expect(await migrate(database)).toContain('006.do.count-usage-by-day.sql');
    const text = `SELECT starts_at, hours, client, requests::int, cost::int, errors::int, refused::int, last_at
                  FROM usage ORDER BY starts_at, client`;
    const day = { starts_at: new Date('2026-05-01'), hours: 24 };
    expect(await query(text)).toEqual([
      { ...day, client: 'a', requests: 11, cost: 110, errors: 1, refused: 1, last_at: new Date('2026-05-01T23:30Z') },
      { ...day, client: 'b', requests: 1, cost: 1, errors: 0, refused: 0, last_at: new Date('2026-05-01T23:10Z') },
      {
        ...{ starts_at: new Date('2026-05-02'), hours: 24, client: 'a', requests: 4, cost: 40, errors: 0, refused: 0 },
        last_at: new Date('2026-05-02T00:10Z'),
      },
    ]);
  });
});
