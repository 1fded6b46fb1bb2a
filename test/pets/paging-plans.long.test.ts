import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Int64 } from '../../src/pets/int64.js';
import type { PetQuery } from '../../src/pets/pet.js';
import { createCall } from '../../src/pets/pet-source.js';
import { createPostgresPetSource } from '../../src/pets/postgres-pet-source.js';
import type { Statement } from '../../src/store/database.js';
import { createDatabase } from '../support/gateway.js';
import { runSql } from '../support/sql.js';

const ANIMALS = 5_000_000;
/** PostgreSQL may keep a plan for all values after five executions. */
const EXECUTIONS = 8;

interface Plan {
  readonly 'Node Type': string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly 'Actual Rows': number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly Plan[];
}

describe('a page of five million animals', () => {
  let database: { url: string; drop: () => Promise<void> };
  let client: pg.Client;

  beforeAll(async () => {
    database = await createDatabase();
    // One in a thousand is sold, and the first tenth are all pending.
    await runSql(
      database.url,
      `INSERT INTO pets (name, category_id, status)
       SELECT 'animal', 1, CASE WHEN n % 1000 = 0 THEN 'sold' WHEN n < ${ANIMALS / 10} THEN 'pending' ELSE 'available' END
       FROM generate_series(1, ${ANIMALS}) AS n`,
    );
    await runSql(database.url, 'VACUUM ANALYZE pets');
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
  });
  afterAll(async () => {
    await client.end();
    await database.drop();
  });

  /** Explains the statement of the list as PostgreSQL runs it after some executions. */
  async function explain(query: PetQuery, isPrepared: boolean): Promise<readonly Plan[]> {
    const asked: [Statement, readonly unknown[]][] = [];
    const source = createPostgresPetSource({
      query: (statement, values) => {
        asked.push([statement, values]);
        return Promise.resolve([]);
      },
    });
    await source.list(query, createCall('test'));
    const [{ text }, values] = asked[0] as (typeof asked)[0];
    const options = 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)';
    let rows: Record<string, [{ Plan: Plan }]>[];
    if (isPrepared) {
      const execute = `EXECUTE list (${values.map((value) => pg.escapeLiteral(String(value))).join()})`;
      await client.query(`PREPARE list AS ${text}`);
      for (let count = 0; count < EXECUTIONS; count += 1) await client.query(execute);
      ({ rows } = await client.query(`${options} ${execute}`));
      await client.query('DEALLOCATE list');
    } else {
      ({ rows } = await client.query(`${options} ${text}`, [...values]));
    }
    const flatten = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(flatten)];
    return flatten((rows[0]?.['QUERY PLAN'] as [{ Plan: Plan }])[0].Plan);
  }

  const blocksOf = ([plan]: readonly Plan[]): number =>
    (plan as Plan)['Shared Hit Blocks'] + (plan as Plan)['Shared Read Blocks'];

  describe.each([true, false])('with prepared statements: %s', (isPrepared) => {
    it.each([undefined, 'available', 'pending', 'sold'] as const)(
      'of the status %s is read like the first, wherever it begins',
      async (status) => {
        const first = await explain({ limit: 100, status }, isPrepared);
        const shapeOf = (plans: readonly Plan[]) => plans.map((plan) => [plan['Node Type'], plan['Index Name']]);
        expect(shapeOf(first)).toEqual([
          ['Limit', undefined],
          ['Index Scan', status === undefined ? 'pets_pkey' : 'pets_status_id'],
        ]);
        for (const after of [0, 1_000, 400_000, 1_000_000, ANIMALS - 1_000, ANIMALS]) {
          const page = await explain({ limit: 100, status, after: String(after) as Int64 }, isPrepared);
          expect(shapeOf(page)).toEqual(shapeOf(first));
          // The condition on the id is where the scan begins, so that no earlier entry is read.
          expect(page[1]?.['Index Cond']).toContain(status === undefined ? 'id > ' : 'ROW(status, id) > ROW(');
          expect(blocksOf(page), `after ${after}`).toBeLessThanOrEqual(blocksOf(first) + 10);
        }
      },
    );
  });
});
