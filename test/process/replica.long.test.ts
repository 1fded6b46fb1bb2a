import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWith } from '../support/installed-program.js';
import { openPostgresServers, type PostgresServers } from '../support/installed-postgres.js';
import { makePlace, until, type Place, type Program } from '../support/process.js';
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

  const COUNT_USAGE = 'SELECT count(*)::int AS count FROM usage';
  const BODY = '{"name":"Rex","categoryId":1}';

  async function createKey(url: string): Promise<string> {
    // The tests ask again and again until something has changed.
    const limits = ['--plan', 'enterprise', '--per-minute', '100000', '--per-day', '100000'];
    const { stdout } = await place.keys(['create', ...limits, '--json'], { DATABASE_URL: url });
    return (JSON.parse(stdout) as { key: string }).key;
  }

  /** The metrics behind the alerts of failing statements and of lost usage. */
  async function readAlarms(program: Program): Promise<string[]> {
    const metrics = await (await program.fetch('/metrics')).text();
    return metrics
      .split('\n')
      .filter((line) => /^(?:db_client_\w+_count\{.*error_type="[^"]|usage_requests_lost_total )/.test(line))
      .sort();
  }

  /** Waits for longer than the program counts usage before it writes it. */
  const waitForWrite = () => sleep(7_000);

  it('serves reads, refuses additions, and says that usage is not counted until it is promoted', async () => {
    const primary = await servers.primary();
    await place.migrate([], { DATABASE_URL: primary.url });
    const key = await createKey(primary.url);
    const standby = await servers.standby(primary, 'replica');
    const program = await place.start({ PORT: '0', DATABASE_URL: standby.url });
    expect(await program.graphql('{ pets { id } }', key)).toEqual({ data: { pets: [] } });
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
    const add = async () => (await program.fetch('/v1/pets', { method: 'POST', headers, body: BODY })).status;
    expect(await add()).toBe(503);
    expect((await program.fetch('/readyz?backend=true')).status).toBe(200);
    await waitForWrite();
    expect(await readAlarms(program)).toEqual([
      expect.stringMatching(/^db_client_\w+_count\{.*"add-pets?".* 1$/),
      'usage_requests_lost_total 0',
    ]);
    await primary.stop();
    await standby.promote();
    await expect.poll(add, { timeout: 10_000 }).toBe(201);
    await expect.poll(() => runSql(standby.url, COUNT_USAGE), { timeout: 15_000 }).not.toEqual([{ count: 0 }]);
    const ended = await program.stop();
    expect(ended.code).toBe(0);
    expect(ended.stdout.match(/usage of keys/g)).toHaveLength(2);
    expect(ended.stdout).toContain('the database is a hot standby: usage of keys is not counted here');
    expect(ended.stdout).toContain('the database is no longer a standby: usage of keys is counted');
  });

  it('stops writing usage, and says so, when its database becomes a standby', async () => {
    const primary = await servers.primary();
    await place.migrate([], { DATABASE_URL: primary.url });
    const key = await createKey(primary.url);
    const program = await place.start({ PORT: '0', DATABASE_URL: primary.url });
    const list = () => program.graphql('{ pets { id } }', key);
    await list();
    await expect.poll(() => runSql(primary.url, COUNT_USAGE), { timeout: 15_000 }).toEqual([{ count: 1 }]);

    await primary.stop();
    await writeFile(join(primary.data, 'standby.signal'), '');
    await primary.start();
    await until('it says so', async () => {
      await list();
      return program.stdout.includes('the database is a hot standby: usage of keys is not counted here');
    });
    const alarms = await readAlarms(program);
    expect(await list()).toEqual({ data: { pets: [] } });
    await waitForWrite();
    expect(await readAlarms(program)).toEqual(alarms);
    expect(alarms).toContain('usage_requests_lost_total 0');
    expect((await program.fetch('/readyz?backend=true')).status).toBe(200);

    await primary.promote();
    await until('it counts again', async () => {
      await list();
      return program.stdout.includes('the database is no longer a standby: usage of keys is counted');
    });
    const requests = 'SELECT sum(requests)::int > 1 AS "areMore" FROM usage';
    await expect.poll(() => runSql(primary.url, requests), { timeout: 15_000 }).toEqual([{ areMore: true }]);
    expect((await program.stop()).stdout.match(/usage of keys/g)).toHaveLength(2);
  });

  it('keeps the usage of a failover, if it knows several hosts', async () => {
    const primary = await servers.primary();
    await place.migrate([], { DATABASE_URL: primary.url });
    const key = await createKey(primary.url);
    const standby = await servers.standby(primary, 'next');
    const url = primary.url.replace(/(?<=:\d+)(?=\/)/, `,127.0.0.1:${standby.port}`);
    const program = await place.start({ PORT: '0', DATABASE_URL: url });
    const list = () => program.graphql('{ pets { id } }', key);
    await list();
    await primary.stop();
    await expect.poll(list).toEqual({ data: { pets: [] } });
    await waitForWrite();
    const readiness = await program.fetch('/readyz?backend=true');
    expect({ status: readiness.status, body: await readiness.text() }).toEqual({
      status: 503,
      body: expect.stringContaining('read-only'),
    });
    await standby.promote();
    const requests = 'SELECT coalesce(sum(requests), 0)::int > 1 AS "areMore" FROM usage';
    await expect.poll(() => runSql(standby.url, requests), { timeout: 15_000 }).toEqual([{ areMore: true }]);
    expect((await program.stop()).stdout).not.toContain('usage of keys is not counted');
  });
});
