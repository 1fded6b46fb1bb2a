import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe } from 'vitest';
import type { Database } from '../../src/database/database.js';
import { migrate } from '../../src/database/migrate.js';
import { createPgDatabase } from '../../src/database/pg-database.js';
import { openPgliteDatabase } from '../../src/database/pglite-database.js';
import type { Int64 } from '../../src/pets/int64.js';
import type { Pet } from '../../src/pets/pet.js';
import { createPostgresPetSource } from '../../src/pets/postgres-pet-source.js';
import { createDatabase } from '../support/gateway.js';
import { describePetSource, type SourceUnderTest } from './pet-source.contract.js';

describePetSource('PGlite', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'animal-store-source-'));
  const database = await openPgliteDatabase(join(directory, 'running'));
  return underTest(database, {
    async findAfterCrash(id) {
      const left = join(directory, `left-${id}`);
      await cp(join(directory, 'running'), left, { recursive: true });
      return findIn(await openPgliteDatabase(left), id);
    },
    async close() {
      await database.close();
      await rm(directory, { recursive: true, force: true });
    },
  });
});

describe.each([true, false])('with prepared statements: %s', (prepare) => {
  describePetSource('a PostgreSQL server', async () => {
    const { url, drop } = await createDatabase();
    const database = createPgDatabase({ url, pool: 4, prepare });
    return underTest(database, {
      findAfterCrash: (id) => findIn(createPgDatabase({ url, pool: 1, prepare: false }), id),
      async close() {
        await database.close();
        await drop();
      },
    });
  });
});

async function underTest(
  database: Database,
  rest: Pick<SourceUnderTest, 'findAfterCrash' | 'close'>,
): Promise<SourceUnderTest> {
  await migrate(database);
  let questions = 0;
  const counted = {
    query: <Row>(...question: Parameters<Database['query']>): Promise<Row[]> => {
      questions++;
      return database.query<Row>(...question);
    },
  };
  return {
    ...rest,
    source: createPostgresPetSource(counted),
    questions: () => questions,
    async reset(animals) {
      await database.query(sql('TRUNCATE pets'), []);
      await database.query(sql('ALTER TABLE pets ALTER COLUMN id RESTART WITH 1000'), []);
      for (const { id, name, categoryId, status } of animals) {
        const values = [id, name, categoryId, status ?? null];
        await database.query(sql('INSERT INTO pets (id, name, category_id, status) VALUES ($1, $2, $3, $4)'), values);
      }
    },
  };
}

async function findIn(database: Database, id: Int64): Promise<Pet | undefined> {
  const call = { requestId: 'test', startedAt: performance.now(), signal: new AbortController().signal };
  const [pet] = await createPostgresPetSource(database).findMany([id], call);
  await database.close();
  if (pet instanceof Error) throw pet;
  return pet;
}

function sql(text: string): { name: string; text: string } {
  return { name: '', text };
}
