import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWith } from '../support/installed-program.js';
import { openPostgresServers, type PostgresServers } from '../support/installed-postgres.js';
import { makePlace, until, type Place } from '../support/process.js';
import { runSql } from '../support/sql.js';

describeWith('postgres', 'an instance on a hot standby', () => {
  let servers: PostgresServers;
  let place: Place;
  beforeAll(async () => {
    servers = await openPostgresServers();
    place = await makePlace();
  });
  afterAll(async () => {
    await place.close();
    await servers.close();
  });

  it('serves reads, refuses additions, and says that usage is not counted until it is promoted', async () => {
    const primary = await servers.primary();
    await place.migrate([], { DATABASE_URL: primary.url });
    const { stdout } = await place.keys(['create', '--plan', 'pro', '--json'], { DATABASE_URL: primary.url });
    const { key } = JSON.parse(stdout) as { key: string };
    const standby = await servers.standby(primary, 'replica');
    const program = await place.start({ PORT: '0', DATABASE_URL: standby.url });
    expect(await program.graphql('{ pets { id } }', key)).toEqual({ data: { pets: [] } });
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const body = '{"name":"Rex","categoryId":1}';
    expect((await program.fetch('/v1/pets', { method: 'POST', headers, body })).status).toBe(503);
    expect((await program.fetch('/readyz?backend=true')).status).toBe(200);
    // Usage would be written within five seconds.
    const until7s = Date.now() + 7_000;
    await until('usage would have been written', () => Date.now() > until7s);
    await primary.stop();
    await standby.promote();
    const add = () => program.fetch('/v1/pets', { method: 'POST', headers, body });
    await expect.poll(async () => (await add()).status, { timeout: 10_000 }).toBe(201);
    const usage = 'SELECT count(*)::int AS count FROM usage';
    await expect.poll(() => runSql(standby.url, usage), { timeout: 15_000 }).not.toEqual([{ count: 0 }]);
    const ended = await program.stop();
    expect(ended.code).toBe(0);
    expect(ended.stdout.match(/usage of keys/g)).toHaveLength(2);
    expect(ended.stdout).toContain('the database is a hot standby: usage of keys is not counted here');
    expect(ended.stdout).toContain('the database is no longer a standby: usage of keys is counted');
  });
});
