import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSecureContext, TLSSocket } from 'node:tls';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { makeCertificate } from '../support/certificate.js';
import { startFaultProxy } from '../support/fault-proxy.js';
import { createDatabase, startGateway } from '../support/gateway.js';
import { describeWith } from '../support/installed-program.js';
import { until } from '../support/process.js';
import { runSql } from '../support/sql.js';
import { noStatementWaits, statementWaits, whileLocked } from '../support/table-lock.js';

describe('a store without prepared statements', () => {
  let database: { url: string; drop: () => Promise<void> };
  let client: pg.Client;

  beforeAll(async () => {
    database = await createDatabase();
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
  });
  afterAll(async () => {
    await client.end();
    await database.drop();
  });

  it('leaves no statement running if the server has one', async () => {
    const name = new URL(database.url).pathname.slice(1);
    await client.query(`ALTER DATABASE ${name} SET statement_timeout = '500ms'`);
    const gateway = await startGateway('server', { DATABASE_URL: database.url, DATABASE_PREPARE: 'false' });
    const { key } = await gateway.createKey();
    await gateway.graphql('{ rateLimit { plan } }', { key });
    const { errors } = await whileLocked(database.url, async () => {
      const answering = gateway.graphql('{ pets { id } }', { key });
      await statementWaits(database.url);
      const answer = await answering;
      await noStatementWaits(database.url);
      return answer;
    });
    await gateway.close();
    expect(errors?.[0]?.extensions.code).toBe('SERVICE_UNAVAILABLE');
  });

  it('does not reuse the connection of a cancelled statement, which a late cancellation might still reach', async () => {
    const store = createPgDatabase({ url: database.url, pool: 1, prepare: false, statementTimeoutMs: 100 });
    const readPid = async (): Promise<number | undefined> => {
      const rows = await store.query<{ pid: number }>({ name: 'pid', text: 'SELECT pg_backend_pid() AS pid' }, []);
      return rows[0]?.pid;
    };
    const first = await readPid();
    await expect(store.query({ name: 'sleep', text: 'SELECT pg_sleep(10)' }, [])).rejects.toThrow();
    const second = await readPid();
    await store.close();
    expect(second).toEqual(expect.any(Number));
    expect(second).not.toBe(first);
  });
});

it.each([
  { ended: 'by an administrator', before: 'SELECT 1', isTerminated: true },
  { ended: 'for its transaction_timeout', before: 'SET transaction_timeout = 100', isTerminated: false },
])('a session that the server ends $ended does not fail the next statement', async ({ before, isTerminated }) => {
  const { url, drop } = await createDatabase();
  const store = createPgDatabase({ url, pool: 1, prepare: true });
  const run = (text: string): Promise<unknown> => store.query({ name: '', text }, []);
  await run(before);
  const ended = expect(run('SELECT pg_sleep(60)')).rejects.toMatchObject({ code: 'unavailable' });
  const next = run('SELECT 1 AS one');
  if (isTerminated) {
    await until('it sleeps', async () => (await runSql(url, SLEEPING)).length === 1);
    await runSql(url, SLEEPING.replace('1', 'pg_terminate_backend(pid)'));
  }
  await ended;
  expect(await next).toEqual([{ one: 1 }]);
  await store.close();
  await drop();
});

it('a transaction ends in time even if nobody answers', async () => {
  const { url, drop } = await createDatabase();
  const { hostname, port } = new URL(url);
  const proxy = await startFaultProxy({ host: hostname, port: Number(port) });
  const store = createPgDatabase({ url: url.replace(port, String(proxy.port)), pool: 1, prepare: true });
  const transaction = store.transaction(async (execute) => {
    await proxy.set('blackhole');
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const asked = execute('SELECT 1');
    vi.advanceTimersByTime(3_600_150);
    vi.useRealTimers();
    return asked;
  });
  await expect(transaction).rejects.toMatchObject({ code: 'unavailable' });
  await store.close();
  await proxy.close();
  await drop();
});

const SLEEPING = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`;
/** https://www.postgresql.org/docs/current/protocol-message-formats.html#PROTOCOL-MESSAGE-FORMATS-SSLREQUEST */
const SSL_REQUEST = 80_877_103;

describeWith('openssl', 'a statement that takes too long', () => {
  it.each(['ü'.repeat(40), '猫'.repeat(40), 'a'.repeat(100), '100% _', ''])(
    'is cancelled if the application_name in the URL is %j',
    async (name) => {
      const { url, drop } = await createDatabase();
      const named = new URL(url);
      named.searchParams.set('application_name', name);
      const store = createPgDatabase({ url: named.href, pool: 1, prepare: true, statementTimeoutMs: 100 });
      const run = (text: string): Promise<unknown> => store.query({ name: '', text }, []);
      // As in a commit that waits for a standby, nothing but the program ends the statement.
      await run('SET statement_timeout = 0');
      await expect(run('SELECT pg_sleep(60)')).rejects.toThrow();
      await until('the server has ended it', async () => (await runSql(url, SLEEPING)).length === 0, 15_000);
      await store.close();
      await drop();
    },
  );

  it('is cancelled over TLS only, if the URL asks for TLS', async () => {
    const { url, drop } = await createDatabase();
    const directory = await mkdtemp(join(tmpdir(), 'animal-store-tls-'));
    const server = await startTlsServer(directory, Number(new URL(url).port));
    const secure = new URL(url);
    secure.host = `localhost:${server.port}`;
    secure.searchParams.set('sslmode', 'verify-full');
    secure.searchParams.set('sslrootcert', join(directory, 'cert.pem'));
    const store = createPgDatabase({ url: secure.href, pool: 1, prepare: true, statementTimeoutMs: 100 });
    const run = (text: string): Promise<unknown> => store.query({ name: '', text }, []);
    await run('SET statement_timeout = 0');
    await expect(run('SELECT pg_sleep(60)')).rejects.toThrow();
    await until('the server has ended it', async () => (await runSql(url, SLEEPING)).length === 0, 15_000);
    expect(server.connections).toMatchObject({ plain: 0 });
    expect(server.connections.tls).toBeGreaterThan(1);
    await store.close();
    server.close();
    await rm(directory, { recursive: true });
    await drop();
  });
});

/** Starts a server that wants TLS, in front of a PostgreSQL server that has none. */
async function startTlsServer(directory: string, port: number) {
  const secureContext = createSecureContext(makeCertificate(directory));
  const connections = { tls: 0, plain: 0 };
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined));
    socket.once('data', (bytes) => {
      if (bytes.length !== 8 || bytes.readInt32BE(4) !== SSL_REQUEST) {
        connections.plain += 1;
        socket.destroy();
        return;
      }
      connections.tls += 1;
      socket.write('S');
      const secure = new TLSSocket(socket, { isServer: true, secureContext }).on('error', () => undefined);
      const inner = connect(port, '127.0.0.1').on('error', () => undefined);
      sockets.add(inner);
      secure.pipe(inner).pipe(secure);
    });
  });
  await new Promise<void>((ready) => server.listen(0, 'localhost', ready));
  return {
    port: (server.address() as AddressInfo).port,
    connections,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
