import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startApp, type App } from '../../src/app.js';
import { loadConfig } from '../../src/config.js';
import { deleteOldRows } from '../../src/store/pruning.js';
import { repeat } from '../../src/repeat.js';
import { createDatabase, startGateway, type Gateway } from '../support/gateway.js';
import { startScriptedUpstream } from '../support/scripted-upstream.js';
import { startProxyBefore } from '../support/gateway.js';

const ADD = 'mutation { addPet(input: { name: "Rex", categoryId: 1 }) { id } }';

describe('idempotency keys of several instances on one database', () => {
  let database: Awaited<ReturnType<typeof createDatabase>>;
  let apps: App[];
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    database = await createDatabase();
    gateway = await startGateway('server', { DATABASE_URL: database.url });
    const env = { DATABASE_URL: database.url, PORT: '0', NODE_ENV: 'test' };
    const settings = [env, { ...env, DATABASE_PREPARE: 'false', DATABASE_POOL: '2' }];
    apps = await Promise.all(settings.map((each) => startApp(loadConfig(each), pino({ level: 'silent' }))));
    ({ key } = await gateway.createKey());
  });
  afterAll(async () => {
    for (const app of apps) await app.close();
    await gateway.close();
    await database.drop();
  });

  it('add one animal for equal requests sent to all instances at once, over GraphQL and REST', async () => {
    for (let round = 0; round < 5; round++) {
      const idempotencyKey = randomUUID();
      const headers = {
        Authorization: `Bearer ${key}`,
        'Content-Type': 'application/json',
        'Idempotency-Key': idempotencyKey,
      };
      const ids = await Promise.all(
        Array.from({ length: 20 }, async (_, n) => {
          const url = [gateway.url, ...apps.map((app) => app.url)][n % 3] as string;
          const [path, body] =
            n % 2 === 0 ? ['/v1/pets', '{"name":"Rex","categoryId":1}'] : ['/graphql', JSON.stringify({ query: ADD })];
          const text = await (await fetch(url + path, { method: 'POST', headers, body })).text();
          return /"id":"?(\d+)/.exec(text)?.[1] ?? text;
        }),
      );
      expect(new Set(ids).size).toBe(1);
      expect(await gateway.sql('SELECT id FROM pets')).toHaveLength(round + 1);
    }
  });

  it('are deleted in batches after a day, while newer ones stay', async () => {
    await gateway.sql(`INSERT INTO idempotent_adds
      SELECT 'key_' || n, 'digest', 'fingerprint', n, now() - interval '24 hours 1 second' FROM generate_series(1, 2500) n`);
    const young = await gateway.sql(`SELECT 1 FROM idempotent_adds WHERE created_at > now() - interval '1 hour'`);
    const queries = vi.fn(({ text }: { text: string }, values: readonly unknown[]) => gateway.sql(text, values));
    await deleteOldRows({ query: queries as never }, 'idempotent_adds', 1);
    expect(queries).toHaveBeenCalledTimes(4);
    expect(await gateway.sql('SELECT 1 FROM idempotent_adds')).toHaveLength(young.length);
    expect(young.length).toBeGreaterThan(0);
  });
});

describe('a repeated task, such as the pruning', () => {
  it('runs repeatedly, continues after a failure, and stops when it is closed', async () => {
    const prune = vi.fn(() => (prune.mock.calls.length === 2 ? Promise.reject(new Error('away')) : Promise.resolve()));
    const onError = vi.fn();
    const stop = repeat({ run: prune, onError, pauseMs: () => 10 });
    await vi.waitFor(() => expect(prune.mock.calls.length).toBeGreaterThan(4));
    await stop();
    expect(onError).toHaveBeenCalledTimes(1);
    const count = prune.mock.calls.length;
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(prune).toHaveBeenCalledTimes(count);
  });
});

describe('an idempotency key in proxy mode', () => {
  it('is sent in quotes with the first addition, extended with the others, and with no other request', async () => {
    const upstream = await startScriptedUpstream();
    const gateway = await startProxyBefore(upstream.url);
    try {
      const send = (idempotencyKey: string, query: string) =>
        gateway.graphql(query, { key: 'any', headers: { 'Idempotency-Key': idempotencyKey } });
      const keysSeen = () => upstream.seen.map(({ headers }) => headers['idempotency-key']);

      await send('Order:7;a', ADD);
      await send('"quoted \\"key\\""', ADD);
      await send('unused', '{ pets { id } pet(id: 1) { id } }');
      await gateway.graphql(ADD, { key: 'any' });
      expect(keysSeen()).toEqual(['"Order:7;a"', '"quoted \\"key\\""', undefined, undefined, undefined]);

      upstream.seen.length = 0;
      const three = `mutation { ${['a', 'b', 'c'].map((name) => `${name}: ${ADD.slice(11, -2)}`).join(' ')} }`;
      await send('k', three);
      await send('"k"', three);
      const [bare, quoted] = [keysSeen().slice(0, 3), keysSeen().slice(3)];
      const derived = expect.stringMatching(/^"[0-9a-f]{64}"$/) as string;
      expect(bare).toEqual(['"k"', derived, derived]);
      expect(new Set(bare).size).toBe(3);
      expect(quoted).toEqual(bare);

      upstream.seen.length = 0;
      await send('x'.repeat(255), three);
      expect(keysSeen().every((sent) => String(sent).length <= 255 + 2)).toBe(true);
      expect(new Set(keysSeen()).size).toBe(3);
    } finally {
      await gateway.close();
      await upstream.close();
    }
  });
});
