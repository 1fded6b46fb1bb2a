import { MutationObserver, QueryClient } from '@tanstack/query-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPetClient } from '../src/index.js';
import { createPetQueries } from '../src/query-options.js';
import { recordFetch } from '../../../test/clients/recorded-fetch.js';
import { startGateway, type Gateway } from '../../../test/support/gateway.js';
import { lookups } from './lookups.js';

describe.each([false, true])('createPetQueries, with TanStack Query, lookups through lists: %s', (getFromLists) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway('embedded', lookups(getFromLists));
    await gateway.sql(`INSERT INTO pets (name, category_id, status) VALUES ('Bella', 1, NULL), ('Milo', 2, 'sold')`);
  });
  afterAll(() => gateway.close());

  async function connect() {
    const { key } = await gateway.createKey();
    const { fetch, sent } = recordFetch();
    const client = createPetClient({ url: `${gateway.url}/graphql`, key, fetch, getFromLists });
    return { pets: createPetQueries(client), queryClient: new QueryClient(), sent };
  }

  it('lists, looks up in one request, and caches', async () => {
    const { pets, queryClient, sent } = await connect();
    expect(await queryClient.query(pets.list({ status: 'SOLD' }))).toMatchObject([{ name: 'Milo' }]);
    const both = [pets.get('1'), pets.get(2n)].map((options) => queryClient.query(options));
    expect(await Promise.all(both)).toMatchObject([{ name: 'Bella' }, { name: 'Milo' }]);
    expect(sent).toHaveLength(2);
    expect(queryClient.getQueryData(pets.get('2').queryKey)).toMatchObject({ name: 'Milo' });
    expect(await queryClient.query(pets.list({ after: 1n }))).toMatchObject([{ name: 'Milo' }]);
    expect(await queryClient.query(pets.list({ after: 2n }))).toEqual([]);
  });

  it('adds an animal, and leaves repeats to the client', async () => {
    const { pets, queryClient, sent } = await connect();
    const mutation = new MutationObserver(queryClient, pets.add());
    expect(await mutation.mutate({ name: 'Rex', categoryId: 3 })).toMatchObject({ name: 'Rex', categoryId: '3' });
    await expect(queryClient.query(pets.get(404))).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(sent).toHaveLength(2);
  });

  it('cancels a query', async () => {
    const { pets, queryClient, sent } = await connect();
    const cancelled = queryClient.query(pets.get('1')).catch((error: unknown) => (error as Error).constructor.name);
    await queryClient.cancelQueries();
    expect(await cancelled).toBe('CancelledError');
    expect(sent).toEqual([]);
  });
});
