import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readFile } from 'node:fs/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { sendRaw } from '../hostile/raw-http.js';
import { startFaultProxy } from '../support/fault-proxy.js';
import { runSql } from '../support/sql.js';
import { findFreePort, linesOf, makePlace, until, type Place, type Program } from '../support/process.js';

/** https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format */
const SAMPLE =
  /^[a-zA-Z_:][\w:]*(?:\{(?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*",?)*\})? (?:[-+]?[\d.]+(?:e[-+]?\d+)?|[+-]Inf|NaN)(?: \d+)?$/;

describe('operator routes, without a key', () => {
  let place: Place;
  let program: Program;
  let database: string;

  beforeAll(async () => {
    place = await makePlace();
    database = await place.database();
    program = await place.start({ PORT: '0', DATABASE_URL: database });
  });
  afterAll(() => place.close());

  it('/livez and /readyz return 200', async () => {
    for (const path of ['/livez', '/readyz']) expect((await program.fetch(path)).status).toBe(200);
  });

  it('/metrics returns Prometheus text that counts requests', async () => {
    const response = await program.fetch('/metrics');
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
    const lines = (await response.text()).split('\n').filter((line) => line !== '');
    for (const line of lines) expect(line).toMatch(line.startsWith('#') ? /^# (?:HELP|TYPE) \w+ / : SAMPLE);
    const requests = async (): Promise<number> => {
      const text = await (await program.fetch('/metrics')).text();
      return Number(/_count\{[^}]*route="\/v1\/pets",[^}]*401[^}]*\} (\d+)/.exec(text)?.[1] ?? 0);
    };
    const before = await requests();
    await program.fetch('/v1/pets');
    await until('the request is counted', async () => (await requests()) === before + 1);
  });

  it('/metrics is served only at METRICS_PORT if that is set', async () => {
    const other = await place.start({ PORT: '0', METRICS_PORT: '0', DATABASE_URL: database });
    const findPort = () => /the metrics are at http:\/\/127\.0\.0\.1:(\d+)\/metrics/.exec(other.stdout)?.[1];
    await until('the log has the address', () => findPort() !== undefined);
    const port = findPort();
    const there = await fetch(`http://127.0.0.1:${port}/metrics`);
    expect(there.status).toBe(200);
    expect(await there.text()).toContain('# TYPE ');
    const elsewhere = await fetch(`http://127.0.0.1:${port}/graphql`);
    expect({ status: elsewhere.status, body: await elsewhere.json() }).toEqual({
      status: 404,
      body: { code: 'not_found', message: 'There is no such path.', status: 404 },
    });
    expect((await other.fetch('/metrics')).status).toBe(404);
    for (const path of ['/livez', '/readyz']) expect((await other.fetch(path)).status).toBe(200);
    const ambiguous = await sendRaw(`http://127.0.0.1:${port}`, (socket) => {
      socket.end('GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n');
    });
    expect(ambiguous.status).toBe(400);
    expect((await other.stop()).code).toBe(0);
  });

  it('/readyz stays 200 while the database is unavailable, with the reason; ?backend=true returns 503', async () => {
    const { pathname, hostname, port, password } = new URL(database);
    const name = pathname.slice(1);
    const strict = async (): Promise<number> => (await program.fetch('/readyz?backend=true')).status;
    expect(await (await program.fetch('/readyz')).json()).toEqual({ status: 'ready', backend: 'available' });
    await onServer(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
    await onServer(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
    await until('it is not ready with its backend', async () => (await strict()) === 503);
    const response = await program.fetch('/readyz');
    expect(response.status).toBe(200);
    const body = await response.text();
    expect(JSON.parse(body)).toMatchObject({ status: 'ready', backend: 'unavailable' });
    expect(body).toMatch(/reason.*database/);
    for (const secret of [hostname, port, name, password, 'postgres']) expect(body).not.toContain(secret);
    expect((await program.fetch('/livez')).status).toBe(200);

    await onServer(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
    await until('it is ready with its backend again', async () => (await strict()) === 200);
  });
});

describe('a database that has become read-only', () => {
  it('makes /readyz?backend=true return 503 with the reason, until it is writable again', async () => {
    const place = await makePlace();
    const database = await place.database();
    const name = new URL(database).pathname.slice(1);
    const created = await place.keys(['create', '--plan', 'pro', '--json'], { DATABASE_URL: database });
    const { key } = JSON.parse(created.stdout) as { key: string };
    const program = await place.start({ PORT: '0', DATABASE_URL: database });
    const strict = (): Promise<Response> => program.fetch('/readyz?backend=true');
    const set = async (change: string): Promise<void> => {
      await onServer(`ALTER DATABASE ${name} ${change}`);
      await onServer(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
    };
    expect((await strict()).status).toBe(200);
    await set('SET default_transaction_read_only = on');
    await until('it says why', async () => {
      const response = await strict();
      return response.status === 503 && (await response.text()).includes('read-only');
    });
    expect((await program.fetch('/readyz')).status).toBe(200);
    const added = await program.fetch('/v1/pets', {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: '{"name":"Rex","categoryId":1}',
    });
    expect([added.status, await added.text()]).toEqual([503, expect.stringContaining('The store is read-only')]);
    await set('RESET default_transaction_read_only');
    await until('it is ready with its backend again', async () => (await strict()).status === 200);
    await place.close();
  });
});

describe('a start while something is unavailable', () => {
  let place: Place;

  beforeAll(async () => {
    place = await makePlace();
  });
  afterAll(() => place.close());

  it('waits for the database, answers /livez, and then serves', async () => {
    const database = await place.database();
    const { pathname, hostname, port: databasePort } = new URL(database);
    const proxy = await startFaultProxy({ host: hostname, port: Number(databasePort) });
    await proxy.set('refuse');
    const port = await findFreePort();
    const url = new URL(database);
    url.port = String(proxy.port);
    const program = place.launch({ PORT: String(port), DATABASE_URL: url.href });
    const ask = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${port}${path}`);
    await until('it is alive', () =>
      ask('/livez').then(
        ({ ok }) => ok,
        () => false,
      ),
    );
    await until('it says that it waits', () => program.stdout.includes('waiting for it'));
    const ready = await ask('/readyz');
    const starting = { status: 'starting', reason: 'The program is starting.' };
    expect({ status: ready.status, body: await ready.json() }).toEqual({ status: 503, body: starting });
    const withBackend = await ask('/readyz?backend=true');
    expect({ status: withBackend.status, body: await withBackend.json() }).toEqual({ status: 503, body: starting });
    const metrics = await ask('/metrics');
    expect({ status: metrics.status, text: await metrics.text() }).toEqual({
      status: 200,
      text: expect.stringContaining('# TYPE http_server_request_duration_seconds histogram'),
    });
    for (const path of ['/graphql', '/v1/pets']) {
      const response = await ask(path);
      expect(response.status).toBe(503);
      expect(response.headers.get('retry-after')).toBe('1');
    }
    expect(program.stdout).not.toContain('listening');

    await proxy.set('pass');
    expect(await program.listens()).toBe(true);
    expect((await ask('/readyz?backend=true')).status).toBe(200);
    expect(program.stdout.match(/waiting for it/g)).toHaveLength(1);
    expect(program.stdout).not.toContain(pathname);
    await program.stop();
    await proxy.close();
  });

  it.each([
    ['DATABASE_URL', 700, async () => `postgres://me:geheim@127.0.0.1:${await findFreePort()}/animals`],
    // A request to an upstream is repeated for a second.
    ['UPSTREAM_URL', 3_000, async () => `http://127.0.0.1:${await findFreePort()}/v1`],
  ])('waits for START_TIMEOUT_MS for %s, and then exits with one line', async (name, timeoutMs, makeUrl) => {
    const env = { PORT: '0', [name]: await makeUrl(), START_TIMEOUT_MS: String(timeoutMs) };
    const startedAt = performance.now();
    const { code, stdout, stderr } = await place.run(env);
    expect(performance.now() - startedAt).toBeGreaterThan(timeoutMs);
    expect(code).toBe(1);
    expect(linesOf(stderr)).toEqual([
      expect.stringMatching(new RegExp(`${name}.*is not available.*${timeoutMs / 1_000} s`)),
    ]);
    expect(stdout.match(/waiting for it/g)).toHaveLength(1);
    expect(stdout + stderr).not.toContain('geheim');
  });

  it('ends at once on a signal', async () => {
    const program = place.launch({ PORT: '0', UPSTREAM_URL: `http://127.0.0.1:${await findFreePort()}/v1` });
    await until('it waits', () => program.stdout.includes('waiting for it'));
    expect(await program.stop('SIGHUP')).toMatchObject({ code: 0, stderr: '' });
  });
});

describe('a database that the program cannot work with', () => {
  let place: Place;

  beforeAll(async () => {
    place = await makePlace();
  });
  afterAll(() => place.close());

  it('makes it unready, with MIGRATE=false and pending migrations; `migrate` repairs that', async () => {
    const env = { DATABASE_URL: await place.database({ migrated: false }) };
    const program = await place.start({ ...env, PORT: '0', MIGRATE: 'false' });
    await until('it names the command', () => /migrations are pending.*npm run migrate/.test(program.stdout));
    const ready = await program.fetch('/readyz');
    expect(ready.status).toBe(503);
    expect(await ready.json()).toMatchObject({ status: 'not ready', backend: 'unusable' });

    for (const [ended, reason] of [
      [await place.keys(['list'], env), 'migrations are pending: run npm run migrate'],
      [await place.store(['export', '-'], env), 'the store has no tables: run npm run migrate'],
    ] as const) {
      expect(ended).toMatchObject({ code: 1, stdout: '' });
      expect(linesOf(ended.stderr)).toEqual([expect.stringContaining(reason)]);
    }
    const pending = await place.migrate(['--check'], env);
    expect(pending).toMatchObject({ code: 1, stderr: '' });
    expect(linesOf(pending.stdout)).toContain('pending: 001.do.create-pets-and-keys.sql');
    const applied = await place.migrate([], env);
    expect(applied).toMatchObject({ code: 0, stderr: '' });
    expect(applied.stdout).toBe(pending.stdout.replaceAll('pending', 'applied'));
    expect(await place.migrate(['--check'], env)).toMatchObject({ code: 0, stdout: 'No migrations are pending.\n' });
    await until('it is ready', async () => (await program.fetch('/readyz')).status === 200);
  });

  it('is not migrated by the keys command, which states what is pending', async () => {
    const env = { DATABASE_URL: await place.database() };
    await runSql(
      env.DATABASE_URL,
      'DELETE FROM schema_version WHERE version = (SELECT max(version) FROM schema_version)',
    );
    const { code, stderr } = await place.keys(['list'], env);
    expect([code, linesOf(stderr)]).toEqual([
      1,
      [expect.stringContaining('migrations are pending: run npm run migrate')],
    ]);
  });

  it('`migrate --check` creates no store', async () => {
    const checked = await place.migrate(['--check'], { DATA_DIR: 'nothing' });
    expect(checked).toMatchObject({ code: 1, stdout: '' });
    expect(linesOf(checked.stderr)).toEqual([expect.stringContaining('there is no store in DATA_DIR "nothing"')]);
    expect(existsSync(join(place.directory, 'nothing'))).toBe(false);
  });

  it('is not one whose role has the permissions that the guide lists', async () => {
    const database = await place.database();
    const name = new URL(database).pathname.slice(1);
    const role = `serving_${name}`;
    const url = new URL(database);
    url.username = role;
    await onServer(`CREATE ROLE ${role} LOGIN PASSWORD 'postgres'`);
    const { key } = JSON.parse(
      (await place.keys(['create', '--plan', 'pro', '--json'], { DATABASE_URL: database })).stdout,
    ) as { key: string };
    const guide = await readFile(new URL('../../docs/operating.md', import.meta.url), 'utf8');
    const grants = /```sql\n(GRANT[^`]*)```/.exec(guide)?.[1] as string;
    await runSql(database, grants.replaceAll('animal_server', role));

    const env = { DATABASE_URL: url.href, MIGRATE: 'false', KEY_SELF_ROTATION: 'true' };
    const program = await place.start({ PORT: '0', ...env });
    const add = 'mutation { addPet(input: { name: "Rex", categoryId: 1 }) { id } }';
    expect(await program.graphql(add, key)).toEqual({ data: { addPet: { id: '1' } } });
    expect(await program.graphql('{ pets { id } pet(id: 1) { name } }', key)).toMatchObject({
      data: { pets: [{ id: '1' }], pet: { name: 'Rex' } },
    });
    const once = await program.fetch('/v1/pets', {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', 'Idempotency-Key': 'one' },
      body: '{"name":"Rex","categoryId":1}',
    });
    expect(once.status).toBe(201);
    const rotation = { method: 'POST', headers: { Authorization: `Bearer ${key}` } };
    expect((await program.fetch('/v1/key/rotate', rotation)).status).toBe(200);
    expect((await program.stop()).stdout).not.toMatch(/permission denied/);
    await runSql(database, `DROP OWNED BY ${role}`);
    await onServer(`DROP ROLE ${role}`);
  });
});

describe('five servers that start at once on one empty database', () => {
  let place: Place;

  beforeAll(async () => {
    place = await makePlace();
  });
  afterAll(() => place.close());

  it('all start and share animals and keys', async () => {
    const env = { PORT: '0', DATABASE_URL: await place.database({ migrated: false }), DATABASE_POOL: '2' };
    const programs = await Promise.all(Array.from({ length: 5 }, () => place.start(env)));
    const { stdout } = await place.keys(['create', '--plan', 'business', '--json'], env);
    const { key } = JSON.parse(stdout) as { key: string };
    for (const [i, program] of programs.entries()) {
      const { data } = await program.graphql(
        `mutation { addPet(input: { name: "n${i}", categoryId: 1 }) { id } }`,
        key,
      );
      expect(data.addPet).not.toBeNull();
    }
    for (const program of programs) {
      const { data } = await program.graphql('{ pets { name } }', key);
      expect(data.pets).toEqual(programs.map((_, i) => ({ name: `n${i}` })));
    }
  });
});

async function onServer(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: inject('postgresUrl') });
  await client.connect();
  await client.query(statement);
  await client.end();
}
