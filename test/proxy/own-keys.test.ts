import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRestClient } from '../rest/requests.js';
import { startGateway, type Gateway } from '../support/gateway.js';

describe('a gateway knows the keys of its upstream only from its responses', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway('proxy', { KEY_SELF_ROTATION: 'true' });
  });
  afterAll(() => gateway.close());

  it.each(['/v1/key', '/v1/key/usage'])('and has no %s', async (path) => {
    const { key } = await gateway.createKey();
    expect((await createRestClient(gateway, key).get(path)).status).toBe(404);
  });

  it('and passes on that a key is read-only', async () => {
    const { key } = await gateway.createKey({ readOnly: true });
    const query = 'mutation { addPet(input: { name: "Rex", categoryId: 1 }) { id } }';
    const { data, errors } = await gateway.graphql(query, { key });
    expect(data).toEqual({ addPet: null });
    expect(errors).toMatchObject([
      { extensions: { code: 'UPSTREAM_ERROR', error: { code: 'forbidden', status: 403 } } },
    ]);
  });
});
