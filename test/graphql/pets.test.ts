import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, petStatements, startGateway, STORES, type Gateway } from '../support/gateway.js';

describe.each(MODES)('reading animals over GraphQL, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
    await gateway.sql(`INSERT INTO pets (id, name, category_id, status) VALUES
      (1, 'Bella', 10, 'available'), (2, 'Milo', 20, 'sold'), (3, 'Flocke', 30, NULL), (9007199254740993, 'Deep', 1, 'available')`);
  });
  afterAll(() => gateway.close());

  it('lists animals by id, lowest first', async () => {
    const { status, data } = await gateway.graphql('{ pets { id name categoryId status } }', { key });
    expect(status).toBe(200);
    expect(data.pets).toEqual([
      { id: '1', name: 'Bella', categoryId: '10', status: 'AVAILABLE' },
      { id: '2', name: 'Milo', categoryId: '20', status: 'SOLD' },
      { id: '3', name: 'Flocke', categoryId: '30', status: null },
      { id: '9007199254740993', name: 'Deep', categoryId: '1', status: 'AVAILABLE' },
    ]);
  });
});

describe.each(STORES)('looking up animals over GraphQL, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
    await gateway.sql(
      "INSERT INTO pets (id, name, category_id) VALUES (1, 'Bella', 10), (2, 'Milo', 20), (3, 'Flocke', 30)",
    );
  });
  afterAll(() => gateway.close());

  it('sends one statement to PostgreSQL for fifty aliased lookups', async () => {
    await gateway.graphql('{ pet(id: 1) { id } }', { key });
    gateway.statements.length = 0;
    const aliases = Array.from({ length: 50 }, (_, i) => `p${i}: pet(id: ${i + 1}) { name }`).join(' ');
    const { data, errors } = await gateway.graphql(`{ ${aliases} }`, { key });
    expect(data.p0).toEqual({ name: 'Bella' });
    expect(errors).toHaveLength(47);
    expect(petStatements(gateway)).toHaveLength(1);
  });
});
