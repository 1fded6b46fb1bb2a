// A key in use is refused once it is revoked, however the revocation comes into the database.
import { expect, it, onTestFinished, vi } from 'vitest';
import { createDatabase, startGateway, type Gateway } from '../support/gateway.js';
import { startPostgres } from '../support/postgres-cluster.js';

async function read(gateway: Gateway, key: string): Promise<number> {
  return (await gateway.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } })).status;
}

/** Keeps the key in use, as long as that takes. */
async function waitFor(gateway: Gateway, key: string, status: number, timeout: number): Promise<void> {
  await vi.waitFor(async () => expect(await read(gateway, key)).toBe(status), { timeout, interval: 200 });
}

it('by logical replication', async () => {
  const cluster = await startPostgres(['-c', 'wal_level=logical']);
  onTestFinished(() => cluster.close());
  const source = await startGateway('server', { DATABASE_URL: cluster.url });
  onTestFinished(() => source.close());
  await source.sql('CREATE DATABASE copies');
  const copy = await startGateway('server', { DATABASE_URL: new URL('copies', cluster.url).href });
  onTestFinished(() => copy.close());
  await source.sql('CREATE PUBLICATION keys FOR TABLE api_keys');
  // Between databases of one server, the subscription would wait for itself if it created the slot.
  await source.sql(`SELECT pg_create_logical_replication_slot('keys', 'pgoutput')`);
  await copy.sql(`CREATE SUBSCRIPTION keys CONNECTION '${cluster.url}' PUBLICATION keys WITH (create_slot = false)`);

  const { id, key } = await source.createKey();
  await waitFor(copy, key, 200, 20_000);
  await source.keys.revoke(id, 'test');
  await waitFor(copy, key, 401, 5_500);
  await copy.sql('ALTER SUBSCRIPTION keys DISABLE');
});

it('although somebody has emptied the table of the version', async () => {
  const database = await createDatabase();
  onTestFinished(() => database.drop());
  const gateway = await startGateway('server', { DATABASE_URL: database.url });
  onTestFinished(() => gateway.close());
  await gateway.sql('TRUNCATE key_version');
  const { id, key } = await gateway.createKey();
  await waitFor(gateway, key, 200, 1_000);
  // Once the version has been asked for.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  await waitFor(gateway, key, 200, 1_000);
  await gateway.keys.revoke(id, 'test');
  await waitFor(gateway, key, 401, 5_500);
});
