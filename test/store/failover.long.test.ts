import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.js';
import { startGateway, type Gateway } from '../support/gateway.js';
import { startPostgres, type PostgresCluster } from '../support/postgres-cluster.js';
import { until } from '../support/process.js';
import { runSql } from '../support/sql.js';

const ADD = 'mutation { addPet(input: { name: "Rex", categoryId: 1 }) { id } }';
const READ = '{ pets(limit: 1) { id } }';

/** The statuses and durations of one kind of request. */
interface Answers {
  readonly codes: Record<string, number>;
  longestMs: number;
}

/** Sends requests without a pause until it is stopped. */
function sendConstantly(gateway: Gateway, key: string, query: string, clients: number): () => Promise<Answers> {
  const answers: Answers = { codes: {}, longestMs: 0 };
  let isEnough = false;
  const running = Array.from({ length: clients }, async () => {
    while (!isEnough) {
      const startedAt = performance.now();
      const { errors } = await gateway.graphql(query, { key });
      const code = errors?.[0]?.extensions.code ?? 'ok';
      answers.codes[code] = (answers.codes[code] ?? 0) + 1;
      answers.longestMs = Math.max(answers.longestMs, performance.now() - startedAt);
      await sleep(10);
    }
  });
  return async () => {
    isEnough = true;
    await Promise.all(running);
    return answers;
  };
}

const createKey = async (gateway: Gateway): Promise<string> =>
  (await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1e6, perDay: 1e6 } })).key;

describe('a synchronous standby that is lost', () => {
  let cluster: PostgresCluster;
  let gateway: Gateway;

  beforeAll(async () => {
    cluster = await startPostgres();
    gateway = await startGateway('server', { DATABASE_URL: cluster.url });
  });
  afterAll(async () => {
    await gateway.close();
    await cluster.close();
  });

  it('stops additions, but neither reads nor the server; all is well when it is back', async () => {
    const key = await createKey(gateway);
    const setStandby = async (names: string): Promise<void> => {
      await runSql(cluster.url, `ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
      await runSql(cluster.url, 'SELECT pg_reload_conf()');
      await sleep(200);
    };
    const text = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = 'animal-store-gateway'`;
    await setStandby('lost');
    const stopReads = sendConstantly(gateway, key, READ, 8);
    const stopAdds = sendConstantly(gateway, key, ADD, 16);
    let most = 0;
    const end = performance.now() + 8_000;
    while (performance.now() < end) {
      const [row] = await runSql<{ count: number }>(cluster.url, text);
      most = Math.max(most, row?.count ?? 0);
      await sleep(100);
    }
    const [reads, adds] = await Promise.all([stopReads(), stopAdds()]);
    await setStandby('');
    const repairedAt = performance.now();
    await until('animals are added', async () => !(await gateway.graphql(ADD, { key })).errors);
    const backMs = performance.now() - repairedAt;
    console.log('lost standby', { reads, adds, most, backMs });
    expect(Object.keys(reads.codes)).toEqual(['ok']);
    expect(Object.keys(adds.codes)).toEqual(['SERVICE_UNAVAILABLE']);
    expect(adds.longestMs).toBeLessThan(3_000);
    expect(most).toBeLessThanOrEqual(12);
    expect(backMs).toBeLessThan(2_000);
  });
});

describe('DATABASE_URL with two hosts', () => {
  let primary: PostgresCluster;
  let standby: PostgresCluster;
  let proxy: FaultProxy;
  let gateway: Gateway;

  beforeAll(async () => {
    [primary, standby] = await Promise.all([startPostgres(), startPostgres()]);
    // Both have the same schema and key. The second refuses writes, like a standby.
    for (const { url } of [standby, primary]) await (await startGateway('server', { DATABASE_URL: url })).close();
    proxy = await startFaultProxy({ host: '127.0.0.1', port: primary.port });
    await runSql(standby.url, 'ALTER SYSTEM SET default_transaction_read_only = on');
    await runSql(standby.url, 'SELECT pg_reload_conf()');
    const hosts = `127.0.0.1:${standby.port},127.0.0.1:${proxy.port}`;
    gateway = await startGateway('server', {
      DATABASE_URL: `postgres://postgres:postgres@${hosts}/postgres?target_session_attrs=read-write`,
    });
  });
  afterAll(async () => {
    await gateway.close();
    await proxy.close();
    await Promise.all([primary.close(), standby.close()]);
  });

  it('uses the primary, reads from the standby while there is none, and follows a failover', async () => {
    const key = await createKey(gateway);
    const [row] = await runSql<{ text: string }>(primary.url, 'SELECT row_to_json(k)::text AS text FROM api_keys k');
    await runSql(
      standby.url,
      `BEGIN READ WRITE; INSERT INTO api_keys SELECT * FROM json_populate_record(NULL::api_keys, '${row?.text}'); COMMIT`,
    );
    expect((await gateway.graphql(ADD, { key })).errors).toBeUndefined();
    const stopReads = sendConstantly(gateway, key, READ, 4);
    await sleep(300);
    await proxy.set('refuse');
    await sleep(1_500);
    expect((await gateway.graphql(ADD, { key })).errors?.[0]?.extensions.code).toBe('SERVICE_UNAVAILABLE');
    await runSql(standby.url, 'ALTER SYSTEM SET default_transaction_read_only = off');
    await runSql(standby.url, 'SELECT pg_reload_conf()');
    const promotedAt = performance.now();
    await until('animals are added', async () => !(await gateway.graphql(ADD, { key })).errors);
    const backMs = performance.now() - promotedAt;
    const reads = await stopReads();
    console.log('failover', { reads, backMs });
    expect(Object.keys(reads.codes)).toEqual(['ok']);
    expect(backMs).toBeLessThan(2_000);
  });
});
