import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';

describe('a database that changes while it is used', () => {
  let gateway: Gateway;
  let headers: Record<string, string>;

  beforeAll(async () => {
    gateway = await startGateway('server');
    const { key } = await gateway.createKey({ plan: 'business' });
    headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  });
  afterAll(() => gateway.close());

  const statuses = async (init?: RequestInit): Promise<Set<number>> => {
    const asked = Array.from({ length: 8 }, async () => (await gateway.fetch('/v1/pets', { headers, ...init })).status);
    return new Set(await Promise.all(asked));
  };
  const ADD = { method: 'POST', body: '{"name":"Rex","categoryId":1}' };

  it.each(['varchar(300)', 'text'])('is read and written when the type of a column becomes %s', async (type) => {
    await statuses();
    await statuses(ADD);
    await gateway.sql(`ALTER TABLE pets ALTER COLUMN name TYPE ${type}`);
    expect(await statuses()).toEqual(new Set([200]));
    await gateway.sql(`ALTER TABLE pets ALTER COLUMN name TYPE ${type}`);
    expect(await statuses(ADD)).toEqual(new Set([201]));
  });

  it('is read and written when the server has forgotten its statements', async () => {
    await statuses();
    const [row] = await gateway.sql<{ count: string }>(
      `SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%animal-store-gateway'`,
    );
    expect(Number(row?.count)).toBeGreaterThan(0);
    await gateway.sql('DEALLOCATE ALL');
    expect(await statuses()).toEqual(new Set([200]));
  });

  it.each([
    ['ALTER FUNCTION key_version() RENAME TO other', 'ALTER FUNCTION other() RENAME TO key_version'],
    ['ALTER TABLE pets RENAME TO other', 'ALTER TABLE other RENAME TO pets'],
  ])('is unavailable, and not ready, after %s', async (change, undo) => {
    await gateway.sql(change);
    const { key } = await gateway.createKey().catch(() => ({ key: undefined }));
    const asked = await gateway.fetch('/v1/pets', { headers: key ? { Authorization: `Bearer ${key}` } : headers });
    expect(asked.status).not.toBe(500);
    await expect.poll(async () => (await gateway.fetch('/readyz?backend=true')).status, { timeout: 5_000 }).toBe(503);
    await gateway.sql(undo);
    await expect.poll(async () => (await gateway.fetch('/readyz?backend=true')).status, { timeout: 5_000 }).toBe(200);
  });
});
