import { once } from 'node:events';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { openForCommand } from '../../src/cli/program.js';
import type { Database } from '../../src/store/database.js';
import { openEmbeddedDatabase } from '../../src/store/embedded-store.js';

const CONFIG = { kind: 'embedded', migrate: true, developmentKeys: false, sampleAnimals: false } as const;

describe('the socket of an embedded store', () => {
  let directory: string;
  let store: Database;
  let clients: pg.Client[];

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'store-'));
    store = await openEmbeddedDatabase(directory, pino({ level: 'silent' }));
  });
  afterAll(async () => {
    await store.close();
    await rm(directory, { recursive: true });
  });
  beforeEach(async () => {
    clients = [];
    await query('CREATE TABLE numbers (n int)');
  });
  afterEach(async () => {
    for (const client of clients) client.end().catch(() => undefined);
    await query('DROP TABLE numbers');
  });

  function query<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return store.query<Row>({ name: '', text }, values);
  }

  async function open(): Promise<pg.Client> {
    const client = new pg.Client({ host: directory, user: 'anyone', database: 'postgres' });
    client.on('error', () => undefined);
    clients.push(client);
    await client.connect();
    return client;
  }

  it('is open to this user alone', async () => {
    expect((await stat(join(directory, '.s.PGSQL.5432'))).mode & 0o777).toBe(0o600);
  });

  it('keeps the statements of clients and of the process apart, in any order', async () => {
    const [one, two] = [await open(), await open()];
    const ask = async (n: number, run: (text: string, values: unknown[]) => Promise<unknown[]>): Promise<void> => {
      for (let i = 0; i < 100; i++) {
        expect(await run(`SELECT ${n} AS n, $1::int AS i`, [i])).toEqual([{ n, i }]);
        if (i % 20 === 0) await expect(run('SELECT nothing', [])).rejects.toThrow('nothing');
      }
    };
    await Promise.all([
      ask(1, async (text, values) => (await one.query(text, values)).rows as unknown[]),
      ask(2, async (text, values) => (await two.query(text, values)).rows as unknown[]),
      ask(3, query),
    ]);
  });

  it('never puts a write of the process into the transaction of a client, even if that client dies', async () => {
    const client = await open();
    await client.query('BEGIN');
    await client.query('INSERT INTO numbers VALUES (1)');
    const written = query('INSERT INTO numbers VALUES (2) RETURNING n');
    const transaction = store.transaction((execute) => execute('INSERT INTO numbers VALUES (3)'));
    (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
    expect(await written).toEqual([{ n: 2 }]);
    await transaction;
    expect(await query('SELECT n FROM numbers ORDER BY n')).toEqual([{ n: 2 }, { n: 3 }]);
  });

  it('answers the process after a client has sent a wrong statement and left', async () => {
    const socket = connect(join(directory, '.s.PGSQL.5432'));
    const parse = Buffer.from('P\0\0\0\0\0nonsense\0\0\0');
    parse.writeInt32BE(parse.length - 1, 1);
    socket.end(Buffer.concat([Buffer.from('0000000800030000', 'hex'), parse])).resume();
    await once(socket, 'close');
    expect(await query('SELECT $1::int AS one', [1])).toEqual([{ one: 1 }]);
  });

  it('takes the store back from a client that keeps a transaction open and sends nothing', async () => {
    const client = await open();
    await client.query('BEGIN');
    const ended = once(client, 'error');
    expect(await query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    expect(String((await ended)[0])).toContain('waited too long');
  }, 30_000);

  it('resets what a client has set', async () => {
    const [{ DateStyle: before } = {}] = await query<Record<string, string>>('SHOW datestyle');
    const client = await open();
    await client.query("SET datestyle = 'SQL, DMY'; SET search_path = nowhere");
    expect(await query('SHOW datestyle')).toEqual([{ DateStyle: before }]);
    expect(await query('SELECT n FROM numbers')).toEqual([]);
  });

  it('returns large results', async () => {
    const { rows } = await (await open()).query("SELECT repeat('x', 1000) AS text FROM generate_series(1, 20000)");
    expect(rows).toHaveLength(20_000);
  });

  it('refuses COPY FROM STDIN, and goes on', async () => {
    const client = await open();
    await expect(client.query('BEGIN; copy numbers FROM\n stdin')).rejects.toThrow('does not support it');
    await client.query('ROLLBACK');
    expect(await query('SELECT n FROM numbers')).toEqual([]);
  });

  it('takes values with the words of a COPY', async () => {
    const client = await open();
    const rows = [{ text: 'copy from stdin' }];
    expect((await client.query("SELECT 'copy from stdin' AS text")).rows).toEqual(rows);
    expect((await client.query('SELECT $1::text AS text', ['copy from stdin'])).rows).toEqual(rows);
  });

  it.each([
    ['no protocol', Buffer.alloc(100, 0xff)],
    ['a length of nothing', Buffer.alloc(8)],
    ['a cancellation', Buffer.from('0000001004d2162e0000000000000000', 'hex')],
  ])('closes the connection of a client that sends %s', async (_, bytes) => {
    const socket = connect(join(directory, '.s.PGSQL.5432'));
    socket.end(bytes).resume();
    await once(socket, 'close');
    expect(await query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });
});

it('serves the commands of this program, whatever pg would take from the environment', async () => {
  vi.stubEnv('PGPORT', '5433');
  vi.stubEnv('PGSSLMODE', 'require');
  onTestFinished(() => void vi.unstubAllEnvs());
  const directory = await mkdtemp(join(tmpdir(), 'store-'));
  const store = await openEmbeddedDatabase(directory, pino({ level: 'silent' }));
  const database = await openForCommand({ ...CONFIG, directory });
  expect(await database.query({ name: '', text: 'SELECT $1::int8 AS n' }, ['9'])).toEqual([{ n: '9' }]);
  await database.close();
  await store.close();
  await rm(directory, { recursive: true });
});

it('is not opened by a command, which may end before the next one: that says which process has the store', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'store-'));
  const command = await openForCommand({ ...CONFIG, directory });
  await expect(openForCommand({ ...CONFIG, directory })).rejects.toThrow(`is in use by process ${process.pid}`);
  await command.close();
  await rm(directory, { recursive: true });
});
