import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';

describe('calls of what is deprecated, while the PostgreSQL server takes no connections', () => {
  let gateway: Gateway;
  let server: pg.Client;
  let database: string;

  beforeAll(async () => {
    gateway = await startGateway('server');
    const [row] = await gateway.sql<{ name: string }>('SELECT current_database() AS name');
    database = row?.name ?? '';
    server = new pg.Client({ connectionString: inject('postgresUrl') });
    await server.connect();
  });
  afterAll(async () => {
    await allowConnections(true);
    await server.end();
    await gateway.close();
  });

  async function allowConnections(allowed: boolean): Promise<void> {
    await server.query(`ALTER DATABASE ${database} ALLOW_CONNECTIONS ${String(allowed)}`);
    if (allowed) return;
    await server.query('SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE datname = $1', [database]);
  }

  it('are counted all the same, and written when it is back', async () => {
    const { id, key } = await gateway.createKey();
    const ask = async (): Promise<number> => {
      const headers = { Authorization: `Bearer ${key}`, 'apollographql-client-name': 'patient' };
      const { status } = await gateway.fetch('/v1/pets/1', { headers });
      return status;
    };
    expect(await ask()).toBe(404);
    await allowConnections(false);
    expect([await ask(), await ask()]).toEqual([503, 503]);
    const warnings = () => gateway.logged.filter(({ msg }) => String(msg).includes('cannot be written down'));
    await expect.poll(warnings, { timeout: 20_000 }).toHaveLength(1);
    expect(JSON.stringify(warnings())).not.toContain(key);

    await allowConnections(true);
    await expect
      .poll(() => gateway.sql('SELECT client, calls FROM deprecated_calls WHERE key_id = $1', [id]), {
        timeout: 20_000,
      })
      .toEqual([{ client: 'patient', calls: '3' }]);
    expect(warnings()).toHaveLength(1);
  });
});
