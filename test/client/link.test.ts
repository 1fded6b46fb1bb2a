import { ApolloClient, ApolloLink, CombinedGraphQLErrors, gql, HttpLink, InMemoryCache } from '@apollo/client/core';
import { BatchHttpLink } from '@apollo/client/link/batch-http';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { toStoreErrors } from '../../src/client/errors.js';
import { createRetryAfterLink, type RetryAfterLinkOptions, type RetryWait } from '../../src/client/link.js';
import { recordFetch } from '../clients/recorded-fetch.js';
import { startGateway, startProxyBefore, type Gateway, type ProxyOnly } from '../support/gateway.js';
import { startShortWindowStore, type ShortWindowStore } from '../support/short-window-store.js';

const LIST = gql`
  query List($limit: Int!) {
    pets(limit: $limit) {
      id
      name
    }
  }
`;
const ADD = gql`
  mutation Add($name: String!) {
    addPet(input: { name: $name, categoryId: "1" }) {
      id
    }
  }
`;

let recorded: ReturnType<typeof recordFetch>;
let waits: RetryWait[];

beforeEach(() => {
  recorded = recordFetch();
  waits = [];
});

interface Connection {
  readonly url: string;
  readonly key: string;
  readonly accept?: string;
  readonly link?: typeof HttpLink | typeof BatchHttpLink;
}

function connect(
  { url, key, accept, link: Link = HttpLink }: Connection,
  options: RetryAfterLinkOptions = {},
): ApolloClient {
  const headers = { authorization: `Bearer ${key}`, ...(accept !== undefined && { accept }) };
  const http = new Link({ uri: `${url}/graphql`, headers, fetch: recorded.fetch });
  const waiting = createRetryAfterLink({ jitterMs: 50, onWait: (wait) => waits.push(wait), ...options });
  return new ApolloClient({ link: ApolloLink.from([waiting, http]), cache: new InMemoryCache() });
}

const list = (client: ApolloClient, limit = 1) =>
  client.query({ query: LIST, variables: { limit }, fetchPolicy: 'no-cache', errorPolicy: 'all' });
const add = (client: ApolloClient, headers: Record<string, string> = {}) =>
  client.mutate({ mutation: ADD, variables: { name: 'Rex' }, errorPolicy: 'all', context: { headers } });
const codesOf = (error: unknown): unknown[] => toStoreErrors(error).map(({ code }) => code);
const sentKeys = (): unknown[] => recorded.sent.map(({ headers }) => headers.get('idempotency-key'));

describe('the retry-after link, at a window that opens again', () => {
  let store: ShortWindowStore;
  let gateway: ProxyOnly;
  let key: string;
  let keys = 0;

  beforeAll(async () => {
    store = await startShortWindowStore({ limit: 1, seconds: 2 });
    gateway = await startProxyBefore(store.url);
  });
  afterAll(async () => {
    await gateway.close();
    await store.close();
  });
  beforeEach(async () => {
    // A key that the gateway does not know yet learns the window from an answer, and uses it up.
    key = `key-${(keys += 1)}`;
    await vi.waitFor(async () => expect((await gateway.graphql('{ pets { id } }', { key })).status).toBe(200), {
      timeout: 20_000,
      interval: 100,
    });
  });

  it('waits as long as the refusal says and repeats the query', async () => {
    const { data, error } = await list(connect({ url: gateway.url, key }));
    expect([data, error]).toEqual([{ pets: [expect.objectContaining({ name: 'Bella' })] }, undefined]);
    expect(recorded.sent.map(({ status }) => status)).toEqual([429, 200]);
    expect(waits).toMatchObject([{ code: 'RATE_LIMITED', repeat: 1 }]);
    expect(waits[0]?.waitMs).toBeGreaterThanOrEqual(1_000);
    expect(waits[0]?.waitMs).toBeLessThanOrEqual(2_050);
  });

  it('does so too when the client takes JSON alone, and sees a ServerError', async () => {
    const { data } = await list(connect({ url: gateway.url, key, accept: 'application/json' }));
    expect(data).toMatchObject({ pets: [{ name: 'Bella' }] });
    expect(recorded.sent.map(({ status }) => status)).toEqual([429, 200]);
  });

  it('does so for the entry of a batch that was refused', async () => {
    const client = connect({ url: gateway.url, key, link: BatchHttpLink });
    const { data } = await list(client);
    expect(data).toMatchObject({ pets: [{ name: 'Bella' }] });
    expect(recorded.sent.map(({ body }) => body.length)).toEqual([1, 1]);
  });

  it('repeats an addPet under the idempotency key of the application, the same each time', async () => {
    const { data } = await add(connect({ url: gateway.url, key }), { 'Idempotency-Key': 'order-7' });
    expect(data).toMatchObject({ addPet: { id: '7' } });
    expect(recorded.sent.map(({ status }) => status)).toEqual([429, 200]);
    expect(sentKeys()).toEqual(['order-7', 'order-7']);
  });

  it('repeats an addPet under an idempotency key of its own, when asked to, one for each addPet', async () => {
    const client = connect({ url: gateway.url, key }, { idempotencyKeys: true });
    expect((await add(client)).data).toMatchObject({ addPet: { id: '7' } });
    const [first, second] = sentKeys();
    expect(first).toMatch(/^[0-9a-f]{32}$/);
    expect(second).toBe(first);
    await add(client);
    expect(sentKeys().at(-1)).toMatch(/^[0-9a-f]{32}$/);
    expect(sentKeys().at(-1)).not.toBe(first);
  });

  it('stops waiting when nobody listens any more', async () => {
    const client = connect({ url: gateway.url, key });
    const listening = client
      .watchQuery({ query: LIST, variables: { limit: 1 }, fetchPolicy: 'no-cache' })
      .subscribe({});
    await vi.waitFor(() => expect(waits).toHaveLength(1), { timeout: 20_000 });
    listening.unsubscribe();
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    expect(recorded.sent).toHaveLength(1);
  });
});

describe('the retry-after link, at a window of a minute', () => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway('embedded', { BAN_AFTER: '1', BAN_SECONDS: '2' });
  });
  afterAll(() => gateway.close());

  /** A key of which `left` of three requests are left. */
  async function createUsed(left: number): Promise<void> {
    ({ key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 3, perDay: 100 } }));
    for (let use = 3; use > left; use--) await gateway.graphql('{ pets { id } }', { key });
  }

  it('hands a refusal on at once, when its wait is longer than may be waited', async () => {
    await createUsed(0);
    const { error } = await list(connect({ url: gateway.url, key }, { maxWaitMs: 5_000 }));
    expect(codesOf(error)).toEqual(['RATE_LIMITED']);
    expect(recorded.sent).toHaveLength(1);
    expect(waits).toEqual([]);
  });

  it('never repeats an addPet without an idempotency key', async () => {
    await createUsed(0);
    const { error } = await add(connect({ url: gateway.url, key }));
    expect(codesOf(error)).toEqual(['RATE_LIMITED']);
    expect(CombinedGraphQLErrors.is(error)).toBe(true);
    expect(recorded.sent).toHaveLength(1);
    expect(sentKeys()).toEqual([null]);
    expect(await gateway.sql('SELECT name FROM pets')).toEqual([]);
  });

  it('waits for the end of a ban that is short enough', async () => {
    await createUsed(1);
    const two = '{ a: pets(limit: 1) { id } b: pets(limit: 2) { id } }';
    for (let use = 0; use < 2; use++) await gateway.graphql(two, { key });
    const { data } = await list(connect({ url: gateway.url, key }));
    expect(data).toEqual({ pets: [] });
    expect(waits).toMatchObject([{ code: 'KEY_BANNED' }]);
    expect(recorded.sent.map(({ status }) => status)).toEqual([429, 200]);
  });

  it('hands on what has data, and what no wait can help', async () => {
    await createUsed(3);
    const client = connect({ url: gateway.url, key });
    const query = gql`
      {
        pets(limit: 1) {
          id
        }
        missing: pet(id: "404") {
          id
        }
      }
    `;
    const { data, error } = await client.query({ query, errorPolicy: 'all' });
    expect([data, codesOf(error)]).toEqual([{ pets: [], missing: null }, ['NOT_FOUND']]);
    expect(codesOf((await list(client, 500)).error)).toEqual(['BAD_USER_INPUT']);
    expect(codesOf((await list(connect({ url: gateway.url, key: 'pets_unknown' }))).error)).toEqual([
      'UNAUTHENTICATED',
    ]);
    expect(recorded.sent).toHaveLength(3);
  });

  it('gives up after the repeats it may make', async () => {
    const fetch = () =>
      Promise.resolve(new Response('<h1>busy</h1>', { status: 503, headers: { 'Retry-After': '0' } }));
    const http = new HttpLink({ uri: `${gateway.url}/graphql`, fetch });
    const waiting = createRetryAfterLink({ jitterMs: 0, maxRepeats: 3, onWait: (wait) => waits.push(wait) });
    const client = new ApolloClient({ link: ApolloLink.from([waiting, http]), cache: new InMemoryCache() });
    expect((await list(client)).error).toMatchObject({ statusCode: 503 });
    expect(waits.map(({ code, waitMs }) => [code, waitMs])).toEqual(Array(3).fill(['SERVICE_UNAVAILABLE', 0]));
  });
});
