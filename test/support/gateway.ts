import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { inject } from 'vitest';
import type { CreatedKey, KeyStore, NewKey } from '../../src/store/postgres-key-store.js';
import { createPostgresKeyStore } from '../../src/store/postgres-key-store.js';
import { startApp, type App, type AppParts } from '../../src/app.js';
import { loadConfig } from '../../src/config.js';
import type { Database } from '../../src/store/database.js';
import { runSql } from './sql.js';

type Store = 'embedded' | 'server';
export type Mode = Store | 'proxy';

/** The store backends that this run tries. Most suites run once for each. See `env` in `vitest.config.ts`. */
export const STORES: readonly Store[] = (['embedded', 'server'] as const).filter(
  (store) => (process.env.STORE ?? store) === store,
);

/** The backends that serve GraphQL. A client must see the same from each of them. */
export const MODES: readonly Mode[] = STORES.includes('server') ? [...STORES, 'proxy'] : STORES;

/** The SQL statements that read or add animals. The program may repeat key lookups at any time. */
export function petStatements({ statements }: Pick<Gateway, 'statements'>): readonly string[] {
  return statements.filter((text) => /\bpets\b/.test(text));
}

/** The running program with its store. */
export interface Gateway {
  readonly url: string;
  /** The address of the explorer, as the program prints it. */
  readonly explorerUrl: string | undefined;
  readonly keys: KeyStore;
  /** The SQL texts sent so far, except statements that a timer sends. A test may clear it. */
  readonly statements: string[];
  /** The parsed log lines. */
  readonly logged: Record<string, unknown>[];
  createKey(newKey?: Partial<NewKey>): Promise<CreatedKey>;
  /** The store behind the gateway, in proxy mode. */
  readonly upstream?: Gateway;
  /** Runs SQL on the store's database. */
  sql<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Sends one operation by POST. */
  graphql(query: string, options?: GraphqlOptions): Promise<GraphqlAnswer>;
  /** Sends any request. `path` starts with a slash. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  close(): Promise<void>;
}

export interface GraphqlOptions {
  readonly key?: string | undefined;
  readonly variables?: Record<string, unknown>;
  /** The variables as JSON text, for numbers that JavaScript rounds. */
  readonly rawVariables?: string;
  readonly operationName?: string;
  readonly headers?: Record<string, string>;
}

export interface GraphqlError {
  readonly message: string;
  readonly path?: readonly (string | number)[];
  readonly extensions: {
    readonly code: string;
    readonly requestId: string;
    readonly error?: { readonly code: string; readonly message: string; readonly status: number };
    readonly retryAfter?: number;
    readonly cost?: number;
  };
}

export interface GraphqlAnswer {
  readonly status: number;
  readonly headers: Headers;
  // Its shape depends on the query of each test.
  readonly data: any;
  readonly errors: readonly GraphqlError[] | undefined;
  readonly extensions: Record<string, unknown> | undefined;
  readonly text: string;
}

/** Starts the program in this process on a free port. Its store is empty unless `DATABASE_URL` names another one. */
export async function startGateway(mode: Mode, env: Record<string, string> = {}): Promise<Gateway> {
  if (mode === 'proxy') return startProxy(env);
  const cleanups: (() => Promise<unknown>)[] = [];
  const backend = env.DATABASE_URL === undefined ? await makeBackend(mode, cleanups) : {};
  const statements: string[] = [];
  let database: Database | undefined;
  const { app, logged } = await start(
    { ...backend, ...env },
    {
      decorateDatabase(opened) {
        database = opened;
        return {
          ...opened,
          query: (statement, values) => {
            if (statement.name !== 'add-usage') statements.push(statement.text);
            return opened.query(statement, values);
          },
        };
      },
    },
  );
  const opened = database as unknown as Database;
  const keys = createPostgresKeyStore(opened);

  return {
    ...createRequests(app.url),
    explorerUrl: app.explorerUrl,
    keys,
    statements,
    logged,
    createKey: (newKey = {}) => keys.create({ plan: 'business', ...newKey }),
    sql: (text, values = []) => opened.query({ name: '', text }, values),
    async close() {
      await app.close();
      for (const cleanup of cleanups.reverse()) await cleanup();
    },
  };
}

/** Starts a gateway in front of a store. Both are this program, and they talk over a real socket. */
async function startProxy(env: Record<string, string>): Promise<Gateway> {
  const store = await startGateway('server', env);
  const { app, logged } = await start({ ...env, UPSTREAM_URL: `${store.url}/v1` });
  return {
    ...store,
    ...createRequests(app.url),
    explorerUrl: app.explorerUrl,
    logged,
    upstream: store,
    async close() {
      await app.close();
      await store.close();
    },
  };
}

/**
 * Makes every read of animals fail, until the function it returns is called.
 * @param code - PostgreSQL's, by default one that the program does not expect
 */
export async function breakReads({ sql }: Pick<Gateway, 'sql'>, code?: string): Promise<() => Promise<void>> {
  const raise = code === undefined ? 'PERFORM 1 / 0' : `RAISE 'broken' USING ERRCODE = '${code}'`;
  await sql('ALTER TABLE pets RENAME TO hidden_animals');
  await sql(`CREATE FUNCTION fail() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN ${raise}; END $$`);
  await sql('CREATE VIEW pets AS SELECT * FROM hidden_animals WHERE (SELECT fail())');
  return async () => {
    await sql('DROP VIEW pets');
    await sql('DROP FUNCTION fail');
    await sql('ALTER TABLE hidden_animals RENAME TO pets');
  };
}

/** A gateway in front of any upstream. */
export interface ProxyOnly extends Pick<Gateway, 'url' | 'fetch' | 'graphql' | 'logged' | 'close'> {
  readonly close: () => Promise<void>;
}

/** Starts a gateway in front of the upstream of a test. */
export async function startProxyBefore(upstreamUrl: string, env: Record<string, string> = {}): Promise<ProxyOnly> {
  const { app, logged } = await start({ ...env, UPSTREAM_URL: upstreamUrl });
  return { ...createRequests(app.url), logged, close: () => app.close() };
}

async function start(
  env: Record<string, string>,
  parts: AppParts = {},
): Promise<{ app: App; logged: Record<string, unknown>[] }> {
  const logged: Record<string, unknown>[] = [];
  // The counters of an instance without Redis. The folder goes when the test run ends.
  const DATA_DIR = join(inject('embeddedFiles'), '..', randomBytes(6).toString('hex'));
  const config = loadConfig({ PORT: '0', NODE_ENV: 'test', SAMPLE_DATA: 'false', DATA_DIR, ...env });
  const log = pino(
    { level: config.logLevel },
    { write: (line: string) => void logged.push(JSON.parse(line) as Record<string, unknown>) },
  );
  return { app: await startApp(config, log, parts), logged };
}

function createRequests(url: string): Pick<Gateway, 'url' | 'fetch' | 'graphql'> {
  return {
    url,
    fetch: (path, init) => fetch(url + path, init),
    async graphql(query, { key, variables, rawVariables, operationName, headers } = {}) {
      const raw = rawVariables === undefined ? '' : `,"variables":${rawVariables}`;
      const body = JSON.stringify({ query, operationName, variables }).replace(/\}$/, `${raw}}`);
      const response = await fetch(`${url}/graphql`, {
        method: 'POST',
        headers: {
          'Content-Type': 'application/json',
          ...(key !== undefined && { Authorization: `Bearer ${key}` }),
          ...headers,
        },
        body,
      });
      const text = await response.text();
      const { data, errors, extensions } = JSON.parse(text) as Pick<GraphqlAnswer, 'data' | 'errors' | 'extensions'>;
      return { status: response.status, headers: response.headers, data, errors, extensions, text };
    },
  };
}

/** Creates an empty store and returns the settings that select it. */
async function makeBackend(mode: Store, cleanups: (() => Promise<unknown>)[]): Promise<Record<string, string>> {
  // It goes with its server at the end of the run: to drop it would take as long as to create it.
  if (mode === 'server') return { DATABASE_URL: (await createDatabase()).url };
  const directory = await mkdtemp(join(tmpdir(), 'animal-store-'));
  cleanups.push(() => rm(directory, { recursive: true, force: true }));
  await copyEmbeddedStore(directory);
  return { DATA_DIR: directory };
}

/** Copies an empty embedded store into a directory for `DATA_DIR`. Creating one takes seconds. */
export async function copyEmbeddedStore(directory: string): Promise<void> {
  await cp(inject('embeddedFiles'), join(directory, 'postgres'), { recursive: true });
}

/**
 * Creates a database without animals and keys on the shared PostgreSQL server.
 * @param migrated - false for a database that has no tables yet
 */
export async function createDatabase({ migrated = true } = {}): Promise<{ url: string; drop: () => Promise<void> }> {
  const server = inject('postgresUrl');
  const name = `test_${randomBytes(6).toString('hex')}`;
  await runSql(server, `CREATE DATABASE ${name} TEMPLATE ${migrated ? inject('migratedDatabase') : 'template1'}`);
  return {
    url: new URL(name, server).href,
    async drop() {
      await runSql(server, `DROP DATABASE ${name} WITH (FORCE)`);
    },
  };
}
