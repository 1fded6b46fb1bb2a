import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { findFreePort, makePlace, until, type Place, type Program } from '../support/process.js';

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
    const port = await findFreePort();
    const other = await place.start({ PORT: '0', METRICS_PORT: String(port), DATABASE_URL: database });
    const there = await fetch(`http://127.0.0.1:${port}/metrics`);
    expect(there.status).toBe(200);
    expect(await there.text()).toContain('# TYPE ');
    expect((await fetch(`http://127.0.0.1:${port}/graphql`)).status).toBe(404);
    expect((await other.fetch('/metrics')).status).toBe(404);
    for (const path of ['/livez', '/readyz']) expect((await other.fetch(path)).status).toBe(200);
    expect((await other.stop()).code).toBe(0);
  });

  it('/readyz states the reason without host names while the database is unavailable, and recovers; /livez stays 200', async () => {
    const { pathname, hostname, port, password } = new URL(database);
    const name = pathname.slice(1);
    await onServer(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
    await onServer(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
    await until('it is not ready', async () => (await program.fetch('/readyz')).status === 503);
    const reason = await (await program.fetch('/readyz')).text();
    expect(reason).toMatch(/database/);
    for (const secret of [hostname, port, name, password, 'postgres']) expect(reason).not.toContain(secret);
    expect((await program.fetch('/livez')).status).toBe(200);

    await onServer(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
    await until('it is ready again', async () => (await program.fetch('/readyz')).status === 200);
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
