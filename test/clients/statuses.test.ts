import { ApolloClient, CombinedGraphQLErrors, gql, HttpLink, InMemoryCache } from '@apollo/client';
import { Client as UrqlClient, fetchExchange } from '@urql/core';
import { ClientError, GraphQLClient } from 'graphql-request';
import relay, { type ConcreteRequest, type NormalizationSelection } from 'relay-runtime';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';
import { recordFetch } from './recorded-fetch.js';

/** What a client makes of a response. */
interface Read {
  readonly data: unknown;
  readonly messages: readonly string[];
}

/** The second field fails, so the response has data with errors: 294. */
const PARTIAL = 'query Names { pets(limit: 1) { name } missing: pet(id: "404") { name } }';
/** Not a valid document: 422. */
const INVALID = 'query Names { animals { name } }';

const NAME: NormalizationSelection = { kind: 'ScalarField', alias: null, name: 'name', args: null, storageKey: null };

describe('clients read the statuses of the September 2026 edition', () => {
  let gateway: Gateway;
  let headers: Record<string, string>;
  let recorded: ReturnType<typeof recordFetch>;

  beforeAll(async () => {
    gateway = await startGateway('server');
    headers = { authorization: `Bearer ${(await gateway.createKey()).key}` };
    await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10)`);
  });
  afterAll(() => gateway.close());
  beforeEach(() => {
    recorded = recordFetch();
  });

  const CLIENTS: Readonly<Record<string, (query: string) => Promise<Read>>> = {
    async 'Apollo Client 4'(query) {
      const link = new HttpLink({ uri: `${gateway.url}/graphql`, headers, fetch: recorded.fetch });
      const client = new ApolloClient({ link, cache: new InMemoryCache() });
      const { data, error } = await client.query({ query: gql(query), errorPolicy: 'all' });
      if (!CombinedGraphQLErrors.is(error)) throw new Error('no GraphQL errors', { cause: error });
      return { data, messages: error.errors.map(({ message }) => message) };
    },
    async urql(query) {
      const options = { exchanges: [fetchExchange], fetch: recorded.fetch, fetchOptions: { headers } };
      const client = new UrqlClient({ url: `${gateway.url}/graphql`, ...options });
      const { data, error } = await client.query(query, {});
      if (!error || error.networkError) throw new Error('no GraphQL errors', { cause: error });
      return { data, messages: error.graphQLErrors.map(({ message }) => message) };
    },
    async 'graphql-request'(query) {
      const client = new GraphQLClient(`${gateway.url}/graphql`, { headers, fetch: recorded.fetch });
      const failure: unknown = await client.request(query).catch((error: unknown) => error);
      if (!(failure instanceof ClientError)) throw new Error('no GraphQL errors', { cause: failure });
      const { data, errors = [] } = failure.response;
      return { data, messages: errors.map(({ message }) => message) };
    },
    async Relay(query) {
      let payload: { data?: unknown; errors?: { message: string }[] } = {};
      // The network function of https://relay.dev/docs/guides/network-layer/, with the media type of the specification.
      const network = relay.Network.create(async ({ text }, variables) => {
        const response = await recorded.fetch(`${gateway.url}/graphql`, {
          method: 'POST',
          headers: { ...headers, accept: 'application/graphql-response+json', 'content-type': 'application/json' },
          body: JSON.stringify({ query: text, variables }),
        });
        payload = (await response.json()) as typeof payload;
        return payload as relay.GraphQLResponse;
      });
      const store = new relay.Store(new relay.RecordSource());
      const environment = new relay.Environment({ network, store });
      const thrown: string[] = [];
      const data: unknown = await relay
        .fetchQuery(environment, toArtifact(query), {})
        .toPromise()
        .catch((error: unknown) => void thrown.push(String(error)));
      // Relay throws the errors of a response without data, and leaves those of fields to the network function.
      return { data, messages: [...thrown, ...(data ? (payload.errors ?? []) : []).map(({ message }) => message)] };
    },
  };

  describe.each(Object.entries(CLIENTS))('%s', (_name, send) => {
    it('reads the data and the errors of a 294', async () => {
      const { data, messages } = await send(PARTIAL);
      expect(recorded.sent).toMatchObject([{ status: 294 }]);
      expect(data).toMatchObject({ pets: [{ name: 'Bella' }], missing: null });
      expect(messages).toContain('There is no animal with id 404.');
    });

    it('reads the errors of a 422', async () => {
      const { data, messages } = await send(INVALID);
      expect(recorded.sent).toMatchObject([{ status: 422 }]);
      expect(data ?? undefined).toBeUndefined();
      expect(messages.join()).toContain('Cannot query field "animals"');
    });
  });
});

/** What the compiler of Relay makes of `PARTIAL`, with another text. */
function toArtifact(text: string): ConcreteRequest {
  const toField = (alias: string | null, name: string, argument: string, value: unknown, plural: boolean) =>
    ({
      kind: 'LinkedField',
      alias,
      name,
      args: [{ kind: 'Literal', name: argument, value }],
      concreteType: 'Pet',
      plural,
      selections: [NAME],
      storageKey: `${name}(${argument}:${JSON.stringify(value)})`,
    }) as const;
  const selections = [toField(null, 'pets', 'limit', 1, true), toField('missing', 'pet', 'id', '404', false)];
  return {
    kind: 'Request',
    fragment: { kind: 'Fragment', name: 'Names', type: 'Query', metadata: null, argumentDefinitions: [], selections },
    operation: { kind: 'Operation', name: 'Names', argumentDefinitions: [], selections },
    params: { id: null, cacheID: text, metadata: {}, name: 'Names', operationKind: 'query', text },
  } as unknown as ConcreteRequest;
}
