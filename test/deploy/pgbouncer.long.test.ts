import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { createPostgresKeyStore } from '../../src/store/postgres-key-store.js';
import { startApp, type App } from '../../src/app.js';
import { loadConfig } from '../../src/config.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { createDatabase } from '../support/gateway.js';
import { describeWith } from '../support/installed-program.js';
import { startPgbouncer, type Pooler } from '../support/pgbouncer.js';

const INSTANCES = 3;
/** Connections from each instance to the pooler, and from the pooler to the server. */
const DATABASE_POOL = 20;
const POOL_SIZE = 2;
const ADDS = 240;
const FIRST_CATEGORY = 9_007_199_254_740_993n;

describeWith('pgbouncer', 'several instances behind PgBouncer in transaction mode', (program) => {
  let database: { url: string; drop: () => Promise<void> };
  let pooler: Pooler;
  let apps: App[] = [];
  let key: string;

  const startInstance = (env: Record<string, string>): Promise<App> =>
    startApp(loadConfig({ DATABASE_URL: pooler.url, PORT: '0', NODE_ENV: 'test', ...env }), pino({ level: 'silent' }));

  beforeAll(async () => {
    database = await createDatabase({ migrated: false });
    pooler = await startPgbouncer(program, { databaseUrl: database.url, poolSize: POOL_SIZE });
  });
  afterAll(async () => {
    for (const app of apps) await app.close();
    await pooler.close();
    await database.drop();
  });

  it('start at once on an empty database and migrate it once', async () => {
    const env = { DATABASE_PREPARE: 'false', DATABASE_POOL: String(DATABASE_POOL) };
    apps = await Promise.all(Array.from({ length: INSTANCES }, () => startInstance(env)));
    for (const { url } of apps) expect((await fetch(`${url}/readyz`)).status).toBe(200);
    const versions = await ask(database.url, 'SELECT version, count(*)::int FROM schema_version GROUP BY version');
    expect(versions.length).toBeGreaterThan(0);
    for (const { count } of versions) expect(count).toBe(1);
    const store = createPgDatabase({ url: pooler.url, pool: 1, prepare: false });
    ({ key } = await createPostgresKeyStore(store).create({
      plan: 'enterprise',
      limits: { perMinute: 100_000, perDay: 100_000 },
    }));
    await store.close();
  });

  it('add, list and look up exact values concurrently over two connections to the server', async () => {
    let mostConnections = 0;
    const loaded = new AbortController();
    const watching = (async () => {
      while (!loaded.signal.aborted) mostConnections = Math.max(mostConnections, await countConnections(database.url));
    })();

    const added = await Promise.all(
      Array.from({ length: ADDS }, async (_, index) => {
        const categoryId = String(FIRST_CATEGORY + BigInt(index));
        const { addPet } = await graphql(
          index,
          'mutation ($input: NewPet!) { addPet(input: $input) { id name categoryId } }',
          { input: { name: `Rex ${index}`, categoryId } },
        );
        expect(addPet).toEqual({ id: expect.stringMatching(/^\d+$/), name: `Rex ${index}`, categoryId });
        // A different instance from the one that added it.
        const { pet, pets } = await graphql(
          index + 1,
          'query ($id: ID!) { pet(id: $id) { id name categoryId } pets(limit: 100) { id } }',
          { id: addPet.id },
        );
        expect(pet).toEqual(addPet);
        const ids = pets.map(({ id }) => Number(id));
        expect(ids).toEqual([...ids].sort((one, other) => one - other));
        return addPet.id;
      }),
    );
    const clients = await pooler.show('SHOW CLIENTS');
    const servers = await pooler.show('SHOW SERVERS');
    loaded.abort();
    await watching;

    expect(new Set(added).size).toBe(ADDS);
    expect(await ask(database.url, 'SELECT count(*)::int FROM pets')).toEqual([{ count: ADDS }]);
    const gatewayClients = clients.filter(({ database: name }) => name === 'animals').length;
    expect(gatewayClients).toBeGreaterThan(POOL_SIZE);
    expect(servers).toHaveLength(POOL_SIZE);
    expect(mostConnections).toBe(POOL_SIZE);
    const [version] = await pooler.show('SHOW VERSION');
    console.log(
      `${String(version?.version)}: ${INSTANCES} instances with ${gatewayClients} connections to the pooler, ` +
        `${mostConnections} to the server; ${ADDS} animals added, looked up and listed`,
    );
  });

  it('leave no session state on the shared connections', async () => {
    const sessions = await Promise.all(Array.from({ length: POOL_SIZE }, () => openTransaction(pooler.url)));
    try {
      const pids = await Promise.all(
        sessions.map((session) => session.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')),
      );
      expect(new Set(pids.map(({ rows }) => rows[0]?.pid)).size).toBe(POOL_SIZE);
      for (const session of sessions) {
        const { rows } = await session.query(SESSION_STATE, [SET_BY_POOLER]);
        expect(rows).toEqual([{ settings: [], prepared: 0, channels: 0, locks: 0, temporary: false }]);
      }
    } finally {
      for (const session of sessions) await session.end();
    }
  });

  it('are refused in one line if they would prepare statements', async () => {
    await expect(startInstance({ DATABASE_PREPARE: 'true' })).rejects.toThrow(
      /^DATABASE_URL names a database .*pooler.*DATABASE_PREPARE=false/,
    );
  });

  it('wait at the start while the server behind it refuses logins', async () => {
    // One that has served a client would have it wait.
    const other = await startPgbouncer(program, { databaseUrl: database.url, poolSize: POOL_SIZE });
    const name = new URL(database.url).pathname.slice(1);
    await ask(inject('postgresUrl'), `ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
    const starting = startInstance({ DATABASE_PREPARE: 'false', DATABASE_URL: other.url });
    await sleep(2_000);
    await ask(inject('postgresUrl'), `ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
    await starting.then((app) => app.close()).finally(() => other.close());
  });

  async function graphql(instance: number, query: string, variables: Record<string, unknown>): Promise<Answer> {
    const { url } = apps[instance % INSTANCES] as App;
    const response = await fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
      body: JSON.stringify({ query, variables }),
    });
    const { data, errors } = (await response.json()) as { data: Answer; errors?: unknown };
    expect(errors).toBeUndefined();
    return data;
  }
});

/** The data that the operations of these tests return. */
interface Answer {
  readonly addPet: { readonly id: string };
  readonly pet: unknown;
  readonly pets: readonly { readonly id: string }[];
}

/** Parameters that PgBouncer tracks for each client. https://www.pgbouncer.org/config.html#track_extra_parameters */
const SET_BY_POOLER = ['application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings'];

const SESSION_STATE = `SELECT
  ARRAY(SELECT name FROM pg_settings WHERE source = 'session' AND name <> ALL ($1)) AS settings,
  (SELECT count(*)::int FROM pg_prepared_statements WHERE name <> '') AS prepared,
  (SELECT count(*)::int FROM pg_listening_channels()) AS channels,
  (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks,
  pg_my_temp_schema() <> 0 AS temporary`;

/** Opens a client that holds one of the server's connections. */
async function openTransaction(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('BEGIN');
  return client;
}

/** Counts the connections on the server, except those of `ask`, which take time to close. */
async function countConnections(url: string): Promise<number> {
  const [row] = await ask(
    url,
    `SELECT count(*)::int FROM pg_stat_activity
     WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> '${ASKING}'`,
  );
  return row?.count as number;
}

const ASKING = 'test';

async function ask(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url, application_name: ASKING });
  await client.connect();
  const { rows } = await client.query<Record<string, unknown>>(text);
  await client.end();
  return rows;
}
