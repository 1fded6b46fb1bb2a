import { ClientError, gql, GraphQLClient } from 'graphql-request';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { toStoreErrors } from '../../packages/client/src/errors.js';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';
import { recordFetch } from './recorded-fetch.js';

const LIST = gql`
  query List($limit: Int!) {
    pets(limit: $limit) {
      id
      name
    }
  }
`;
const LOOK_UP = gql`
  query LookUp($id: ID!) {
    pet(id: $id) {
      name
    }
  }
`;

describe.each(MODES)('graphql-request, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;
  let recorded: ReturnType<typeof recordFetch>;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
    await gateway.sql(`INSERT INTO pets (name, category_id, status) VALUES
      ('Bella', 10, 'available'), ('Milo', 20, 'sold')`);
  });
  afterAll(() => gateway.close());
  beforeEach(() => {
    recorded = recordFetch();
  });

  const connect = (withKey: string): GraphQLClient =>
    new GraphQLClient(`${gateway.url}/graphql`, {
      headers: { authorization: `Bearer ${withKey}` },
      fetch: recorded.fetch,
    });

  it('reads animals and the limit headers', async () => {
    const { data, headers, status } = await connect(key).rawRequest(LIST, { limit: 1 });
    expect(data).toEqual({ pets: [{ id: '1', name: 'Bella' }] });
    expect(status).toBe(200);
    expect(headers.get('x-ratelimit-limit')).toBe('1000');
  });

  it('adds an animal', async () => {
    const mutation = gql`
      mutation Add($input: NewPet!) {
        addPet(input: $input) {
          name
          categoryId
          status
        }
      }
    `;
    const input = { name: 'Rex', categoryId: '7', status: 'PENDING' };
    expect(await connect(key).request(mutation, { input })).toEqual({ addPet: input });
    expect(await gateway.sql(`SELECT status FROM pets WHERE name = 'Rex'`)).toEqual([{ status: 'pending' }]);
  });

  it('sends several documents in one HTTP request', async () => {
    const answers = await connect(key).batchRequests([
      { document: LIST, variables: { limit: 2 } },
      { document: LOOK_UP, variables: { id: '2' } },
      { document: LOOK_UP, variables: { id: '1' } },
    ]);
    expect(answers.map(({ data }) => data)).toEqual([
      {
        pets: [
          { id: '1', name: 'Bella' },
          { id: '2', name: 'Milo' },
        ],
      },
      { pet: { name: 'Milo' } },
      { pet: { name: 'Bella' } },
    ]);
    expect(recorded.sent).toMatchObject([{ method: 'POST', status: 200 }]);
  });

  it('rejects a batch with a failed field and provides every result', async () => {
    const error = await failureOf(
      connect(key).batchRequests([
        { document: LOOK_UP, variables: { id: '1' } },
        { document: LOOK_UP, variables: { id: '404' } },
      ]),
    );
    expect(error.response).toMatchObject({
      status: 200,
      0: { data: { pet: { name: 'Bella' } } },
      1: { data: { pet: null }, errors: [{ path: ['pet'], extensions: { code: 'NOT_FOUND' } }] },
    });
    expect(toStoreErrors(error)).toMatchObject([{ code: 'NOT_FOUND', path: ['pet'] }]);
  });

  it('reads a field error with its extensions', async () => {
    const { response } = await failureOf(connect(key).request(LIST, { limit: 500 }));
    expect(response.status).toBe(294);
    expect(response.errors).toMatchObject([
      { path: ['pets'], extensions: { code: 'BAD_USER_INPUT', error: { code: 'invalid_request', status: 400 } } },
    ]);
  });

  it('reports a 401', async () => {
    const { response } = await failureOf(connect('pets_unknown').request(LIST, { limit: 1 }));
    expect(response.status).toBe(401);
    expect(response.errors?.[0]?.extensions.code).toBe('UNAUTHENTICATED');
  });

  it('reports a 429 and its Retry-After', async () => {
    const { key: small } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 100 } });
    await connect(small).request(LIST, { limit: 1 });
    const { response } = await failureOf(connect(small).request(LIST, { limit: 1 }));
    expect(response.status).toBe(429);
    expect(response.errors?.[0]?.extensions.code).toBe('RATE_LIMITED');
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
  });
});

async function failureOf(request: Promise<unknown>): Promise<ClientError> {
  const failure: unknown = await request.catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ClientError);
  return failure as ClientError;
}
