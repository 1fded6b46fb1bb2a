import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, inject } from 'vitest';
import type { Database } from '../../src/store/database.js';
import { migrate } from '../../src/store/migrate.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { openPgliteDatabase } from '../../src/store/embedded-store.js';
import type { Int64 } from '../../src/pets/int64.js';
import { createBatchingPetSource } from '../../src/pets/batching-pet-source.js';
import type { Pet, PetStatus } from '../../src/pets/pet.js';
import { createCall, type BulkPetSource } from '../../src/pets/pet-source.js';
import { createPostgresPetSource } from '../../src/pets/postgres-pet-source.js';
import { createBreaker } from '../../src/proxy/breaker.js';
import { createUpstreamClient } from '../../src/proxy/client.js';
import { createRestPetSource } from '../../src/proxy/source.js';
import { createUpstreamKey } from '../support/calls.js';
import { createDatabase, startGateway } from '../support/gateway.js';
import { describePetSource, type SourceUnderTest } from './pet-source.contract.js';

describePetSource('PGlite', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'animal-store-source-'));
  const running = join(directory, 'running');
  await cp(inject('embeddedFiles'), running, { recursive: true });
  const database = await openPgliteDatabase(running);
  return underTest(database, {
    async findAfterCrash(id) {
      const left = join(directory, `left-${id}`);
      await cp(running, left, { recursive: true });
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

describePetSource('merged reads of a PostgreSQL server', async () => {
  const { url, drop } = await createDatabase();
  const database = createPgDatabase({ url, pool: 4, prepare: true });
  const tested = await underTest(database, {
    findAfterCrash: (id) => findIn(createPgDatabase({ url, pool: 1, prepare: false }), id),
    async close() {
      await database.close();
      await drop();
    },
  });
  return { ...tested, source: createBatchingPetSource(tested.source) };
});

describePetSource('another animal store, over REST', async () => {
  const store = await startGateway('server');
  const { key } = await store.createKey({ plan: 'enterprise', limits: { perMinute: 1_000_000, perDay: 1_000_000 } });
  const url = `${store.url}/v1`;
  const breaker = createBreaker(() => undefined);
  const client = createUpstreamClient({ url, connections: 8, timeoutMs: 20_000, breaker });
  return {
    source: createRestPetSource(client.ask, 'test'),
    call: {
      key: createUpstreamKey('test', `Bearer ${key}`),
    },
    questions: () => store.statements.length,
    reset: (animals) => resetAnimals((text, values) => store.sql(text, values), animals),
    async findAfterCrash(id) {
      const [row] = await store.sql<Omit<Pet, 'status'> & { status: PetStatus | null }>(
        'SELECT id, name, category_id AS "categoryId", status FROM pets WHERE id = $1',
        [id],
      );
      if (!row) return undefined;
      const { status, ...pet } = row;
      return status === null ? pet : { ...pet, status };
    },
    async close() {
      await client.close();
      await store.close();
    },
  };
});

async function underTest(
  database: Database,
  rest: Pick<SourceUnderTest, 'findAfterCrash' | 'close'>,
): Promise<SourceUnderTest & { readonly source: BulkPetSource }> {
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
    reset: (animals) => resetAnimals((text, values) => database.query(sql(text), values), animals),
  };
}

async function resetAnimals(
  query: (text: string, values: readonly unknown[]) => Promise<unknown>,
  animals: readonly Pet[],
): Promise<void> {
  await query('TRUNCATE pets', []);
  await query('ALTER TABLE pets ALTER COLUMN id RESTART WITH 1000', []);
  for (const { id, name, categoryId, status } of animals) {
    const values = [id, name, categoryId, status ?? null];
    await query('INSERT INTO pets (id, name, category_id, status) VALUES ($1, $2, $3, $4)', values);
  }
}

async function findIn(database: Database, id: Int64): Promise<Pet | undefined> {
  const pet = (await createPostgresPetSource(database).findMany([id], createCall('test'))).get(id);
  await database.close();
  if (pet instanceof Error) throw pet;
  return pet;
}

function sql(text: string): { name: string; text: string } {
  return { name: '', text };
}
