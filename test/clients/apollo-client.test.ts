import { createHash } from 'node:crypto';
import {
  ApolloClient,
  ApolloLink,
  CombinedGraphQLErrors,
  gql,
  HttpLink,
  InMemoryCache,
  ServerError,
} from '@apollo/client/core';
import { BatchHttpLink } from '@apollo/client/link/batch-http';
import { ErrorLink } from '@apollo/client/link/error';
import { PersistedQueryLink } from '@apollo/client/link/persisted-queries';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';
import { recordFetch } from './recorded-fetch.js';

const LIST = gql`
  query List($limit: Int! = 20, $status: PetStatus) {
    pets(limit: $limit, status: $status) {
      id
      name
      status
    }
  }
`;
const LOOK_UP = gql`
  query LookUp($id: ID!) {
    pet(id: $id) {
      id
      name
    }
  }
`;
const ADD = gql`
  mutation Add($input: NewPet!) {
    addPet(input: $input) {
      id
      name
      categoryId
      status
    }
  }
`;

describe.each(MODES)('Apollo Client 4, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;
  let recorded: ReturnType<typeof recordFetch>;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
    await gateway.sql(`INSERT INTO pets (name, category_id, status) VALUES
      ('Bella', 10, 'available'), ('Milo', 20, 'sold')`);
    await gateway.sql(`INSERT INTO pets (id, name, category_id) VALUES (9007199254740993, 'Deep', 1)`);
  });
  afterAll(() => gateway.close());
  beforeEach(() => {
    recorded = recordFetch();
  });

  const toOptions = (withKey: string) => ({
    uri: `${gateway.url}/graphql`,
    headers: { authorization: `Bearer ${withKey}` },
    fetch: recorded.fetch,
  });
  const connect = (link: ApolloLink): ApolloClient => new ApolloClient({ link, cache: new InMemoryCache() });

  it('reads animals', async () => {
    const client = connect(new HttpLink(toOptions(key)));
    const { data } = await client.query({ query: LIST, variables: { status: 'SOLD' } });
    expect(data).toMatchObject({ pets: [{ __typename: 'Pet', id: '2', name: 'Milo', status: 'SOLD' }] });
  });

  it('returns large ids exactly', async () => {
    const client = connect(new HttpLink(toOptions(key)));
    const { data } = await client.query({ query: LOOK_UP, variables: { id: '9007199254740993' } });
    expect(data).toMatchObject({ pet: { id: '9007199254740993', name: 'Deep' } });
  });

  it('adds an animal', async () => {
    const client = connect(new HttpLink(toOptions(key)));
    const input = { name: 'Rex', categoryId: '9223372036854775807', status: 'PENDING' };
    const { data } = await client.mutate({ mutation: ADD, variables: { input } });
    expect(data).toMatchObject({ addPet: input });
    expect(await gateway.sql(`SELECT status FROM pets WHERE category_id = 9223372036854775807`)).toEqual([
      { status: 'pending' },
    ]);
  });

  it('reads the extensions of an error', async () => {
    const client = connect(new HttpLink(toOptions(key)));
    const { error } = await client.query({ query: LOOK_UP, variables: { id: '404' }, errorPolicy: 'all' });
    expect(CombinedGraphQLErrors.is(error)).toBe(true);
    expect((error as CombinedGraphQLErrors).errors).toMatchObject([
      {
        path: ['pet'],
        extensions: {
          code: 'NOT_FOUND',
          error: { code: 'not_found', status: 404 },
          requestId: expect.stringMatching(/.+/) as string,
        },
      },
    ]);
  });

  it('rejects with the same errors when the error policy is none', async () => {
    const client = connect(new HttpLink(toOptions(key)));
    const input = { name: '   ', categoryId: '1' };
    const failure: unknown = await client.mutate({ mutation: ADD, variables: { input } }).catch((e: unknown) => e);
    expect(failure).toBeInstanceOf(CombinedGraphQLErrors);
    expect((failure as CombinedGraphQLErrors).errors[0]?.extensions).toMatchObject({ code: 'BAD_USER_INPUT' });
  });

  it('reads the data of other fields with the error policy all', async () => {
    const client = connect(new HttpLink(toOptions(key)));
    const query = gql`
      {
        pets(limit: 1) {
          id
          name
        }
        missing: pet(id: "404") {
          id
        }
      }
    `;
    const { data, error } = await client.query({ query, errorPolicy: 'all' });
    expect(data).toMatchObject({ pets: [{ id: '1', name: 'Bella' }], missing: null });
    expect((error as CombinedGraphQLErrors).errors).toMatchObject([{ path: ['missing'] }]);
    expect(recorded.sent).toMatchObject([{ status: 294 }]);
  });

  it('batches several queries in one HTTP request and gives each its own result', async () => {
    const { key: small } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 4, perDay: 100 } });
    await gateway.graphql('{ pets { id } }', { key: small });
    const client = connect(new BatchHttpLink({ ...toOptions(small), batchInterval: 50 }));
    const asked = [
      { query: LIST, variables: { limit: 1 } },
      { query: LOOK_UP, variables: { id: '404' } },
      { query: LOOK_UP, variables: { id: '2' } },
      { query: LIST, variables: { limit: 3 } },
    ];
    const answers = await Promise.all(asked.map((options) => client.query({ ...options, errorPolicy: 'all' })));
    expect(recorded.sent).toMatchObject([{ method: 'POST', status: 200 }]);
    expect(recorded.sent[0]?.body).toHaveLength(4);
    expect(answers[0]?.data).toMatchObject({ pets: [{ name: 'Bella' }] });
    expect(answers[2]?.data).toMatchObject({ pet: { name: 'Milo' } });
    expect(answers.map(({ error }) => codesOf(error))).toEqual([[], ['NOT_FOUND'], [], ['RATE_LIMITED']]);
  });

  it('sends queries by GET and mutations by POST when configured to', async () => {
    const client = connect(new HttpLink({ ...toOptions(key), useGETForQueries: true }));
    const { data } = await client.query({ query: LOOK_UP, variables: { id: '1' } });
    await client.mutate({ mutation: ADD, variables: { input: { name: 'Rex', categoryId: '1' } } });
    expect(data).toMatchObject({ pet: { name: 'Bella' } });
    expect(recorded.sent).toMatchObject([
      { method: 'GET', status: 200, body: undefined },
      { method: 'POST', status: 200 },
    ]);
  });

  it('sends the text of a persisted query once, and only its hash afterwards', async () => {
    const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
    const persisted = new PersistedQueryLink({ sha256, useGETForHashedQueries: true });
    const client = connect(ApolloLink.from([persisted, new HttpLink(toOptions(key))]));
    const query = gql`
      query Persisted {
        pets(limit: 2) {
          name
        }
      }
    `;
    for (let use = 0; use < 2; use++) {
      const { data } = await client.query({ query, fetchPolicy: 'no-cache' });
      expect(data).toMatchObject({ pets: [{ name: 'Bella' }, { name: 'Milo' }] });
    }
    expect(recorded.sent.map(({ method }) => method)).toEqual(['GET', 'POST', 'GET']);
    expect(recorded.sent.map(({ url, body }) => url.searchParams.has('query') || body?.query !== undefined)).toEqual([
      false,
      true,
      false,
    ]);
  });

  it('reports a 401 for every media type it accepts', async () => {
    const answers: Response[] = [];
    const watch = new ErrorLink(({ operation }) => {
      answers.push(operation.getContext().response as Response);
    });
    const client = connect(ApolloLink.from([watch, new HttpLink(toOptions('pets_unknown'))]));
    const { error } = await client.query({ query: LIST, errorPolicy: 'all' });
    expect(codesOf(error)).toEqual(['UNAUTHENTICATED']);
    expect(answers[0]?.status).toBe(401);
    expect(answers[0]?.headers.get('www-authenticate')).toContain('error="invalid_token"');

    const legacy = await askForJson('pets_unknown');
    expect(legacy.statusCode).toBe(401);
    expect(legacy.bodyText).toContain('UNAUTHENTICATED');
  });

  it('reports a 429 and its Retry-After for every media type it accepts', async () => {
    const { key: small } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 100 } });
    const client = connect(new HttpLink(toOptions(small)));
    await client.query({ query: LIST });
    const { error } = await client.query({ query: LIST, errorPolicy: 'all', fetchPolicy: 'no-cache' });
    expect(codesOf(error)).toEqual(['RATE_LIMITED']);
    const { retryAfter, cost } = (error as CombinedGraphQLErrors).errors[0]?.extensions ?? {};
    expect(retryAfter).toBeGreaterThan(0);
    expect(retryAfter).toBeLessThanOrEqual(60);
    expect(cost).toBe(1);

    const legacy = await askForJson(small);
    expect(legacy.statusCode).toBe(429);
    expect(Number(legacy.response.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  async function askForJson(withKey: string): Promise<ServerError> {
    const { headers, ...options } = toOptions(withKey);
    const client = connect(new HttpLink({ ...options, headers: { ...headers, accept: 'application/json' } }));
    const { error } = await client.query({ query: LIST, errorPolicy: 'all' });
    expect(error).toBeInstanceOf(ServerError);
    return error as ServerError;
  }
});

function codesOf(error: unknown): unknown[] {
  return CombinedGraphQLErrors.is(error) ? error.errors.map(({ extensions }) => extensions?.code) : [];
}
