import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { takeDatabaseAccess, type DatabaseAccess } from '../support/database-access.js';
import { startGateway, type Gateway } from '../support/gateway.js';

describe('a PostgreSQL server that accepts no connections', () => {
  let gateway: Gateway;
  let access: DatabaseAccess;

  beforeAll(async () => {
    gateway = await startGateway('server');
    access = await takeDatabaseAccess(gateway);
  });
  afterAll(async () => {
    await access.close();
    await gateway.close();
  });

  it('does not keep usage from being counted, and written when it is back', async () => {
    const { id, key } = await gateway.createKey();
    const ask = async (): Promise<number> => {
      const headers = { Authorization: `Bearer ${key}`, 'apollographql-client-name': 'patient' };
      const { status } = await gateway.fetch('/v1/pets/1', { headers });
      return status;
    };
    expect(await ask()).toBe(404);
    const warnings = () => gateway.logged.filter(({ msg }) => String(msg).includes('key usage cannot be stored yet'));
    await access.whileAway(async () => {
      expect([await ask(), await ask()]).toEqual([503, 503]);
      await expect.poll(warnings, { timeout: 20_000 }).toHaveLength(1);
      expect(JSON.stringify(warnings())).not.toContain(key);
    });

    await expect
      .poll(() => gateway.sql('SELECT client, requests FROM usage WHERE key_id = $1', [id]), {
        timeout: 20_000,
      })
      .toEqual([{ client: 'patient', requests: '3' }]);
    expect(warnings()).toHaveLength(1);
  });

  it('causes one line in the log for a broken idle connection, without what the client of the database knows', async () => {
    const broke = () => gateway.logged.filter(({ msg }) => msg === 'an idle database connection broke');
    await expect.poll(() => broke().length).toBeGreaterThan(0);
    const [line = {}] = broke();
    expect(line.reason).toMatch(/^terminating connection/);
    expect(Object.values(line).filter((value) => typeof value === 'object')).toEqual([]);
  });
});
