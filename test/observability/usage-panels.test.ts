import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, inject, it, vi } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';
import { runSql } from '../support/sql.js';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

const { panels } = JSON.parse(read('deploy/grafana/animal-store-gateway.json')) as {
  panels: { title: string; targets?: { rawSql?: string }[] }[];
};

/** Fills in the macros as Grafana does, with the default range of the dashboard. */
function toSql(title: string): string {
  const sql = panels.find((panel) => panel.title === title)?.targets?.[0]?.rawSql ?? '';
  const from = new Date(Date.now() - 3_600_000).toISOString();
  return sql.replaceAll('$__timeFrom()', `'${from}'`).replaceAll('$__timeTo()', `'${new Date().toISOString()}'`);
}

describe('the dashboard queries the usage of keys', () => {
  const password = 'secret';
  const role = `grafana_${Math.random().toString(36).slice(2)}`;
  let gateway: Gateway;
  let url: string;
  let key: string;
  let keyId: string;

  beforeAll(async () => {
    gateway = await startGateway('server');
    ({ key, id: keyId } = await gateway.createKey({ plan: 'pro', label: 'shop' }));
    const headers = { 'apollographql-client-name': 'shop-web' };
    await gateway.graphql('query Shelf { pets { id } }', { key, headers });
    await gateway.graphql('query Old { pet(id: 1) { id } b: pet(id: 2) { id } }', { key, headers });
    await vi.waitFor(
      async () => {
        const [row] = await gateway.sql<{ sum: number }>('SELECT sum(requests)::int FROM usage');
        expect(row?.sum).toBe(2);
      },
      { timeout: 30_000, interval: 200 },
    );
    // The role that docs/operating.md describes.
    const [database] = await gateway.sql<{ name: string }>('SELECT current_database() AS name');
    const own = new URL(`/${database?.name ?? ''}`, inject('postgresUrl'));
    const statements = /```sql\n(CREATE ROLE grafana[^`]*)```/.exec(read('docs/operating.md'))?.[1] as string;
    await runSql(own.href, statements.replace('…', password).replaceAll('grafana', role));
    own.username = role;
    own.password = password;
    url = own.href;
  });
  afterAll(async () => {
    await gateway.sql(`DROP OWNED BY ${role}`);
    await gateway.sql(`DROP ROLE ${role}`);
    await gateway.close();
  });

  const common = { label: 'shop', plan: 'pro', client: 'shop-web' };

  it('for who requested what', async () => {
    expect(await runSql(url, toSql('Who requested what'))).toEqual([
      { key: keyId, ...common, operation: 'Old', requests: 1, cost: 2, errors: 1, refused: 0, last: expect.any(Date) },
      {
        key: keyId,
        ...common,
        operation: 'Shelf',
        requests: 1,
        cost: 1,
        errors: 0,
        refused: 0,
        last: expect.any(Date),
      },
    ]);
  });

  it('for who still calls what is deprecated', async () => {
    expect(await runSql(url, toSql('Who still calls what is deprecated'))).toEqual([
      { key: keyId, ...common, deprecated: 'Query.pet', calls: 1, last: expect.any(Date) },
    ]);
  });

  it.each(['Who requested what', 'Who still calls what is deprecated'])(
    '%s: only the keys of the rows that are shown are looked up',
    async (title) => {
      const [row] = await runSql<{ 'QUERY PLAN': [{ Plan: Plan }] }>(url, `EXPLAIN (FORMAT JSON) ${toSql(title)}`);
      const plan = row?.['QUERY PLAN'][0].Plan as Plan;
      const path = findScan(plan, 'api_keys') as Plan[];
      expect(path.map((node) => node['Node Type'])).not.toContain('Limit');
      expect(JSON.stringify(plan)).toContain('"Node Type":"Limit"');
    },
  );

  it('with a role that cannot read the digests of keys', async () => {
    await expect(runSql(url, 'SELECT * FROM api_keys')).rejects.toThrow('permission denied');
  });
});

/** A part of what EXPLAIN prints. */
interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly Plans?: readonly Plan[];
}

/** Returns the node that scans a table, and all above it. */
function findScan(plan: Plan, table: string): Plan[] | undefined {
  if (plan['Relation Name'] === table) return [plan];
  for (const child of plan.Plans ?? []) {
    const path = findScan(child, table);
    if (path) return [plan, ...path];
  }
  return undefined;
}
