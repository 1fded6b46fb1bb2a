import { ApolloClient, ApolloLink, CombinedGraphQLErrors, gql, HttpLink, InMemoryCache } from '@apollo/client/core';
import { BatchHttpLink } from '@apollo/client/link/batch-http';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { toStoreErrors } from '../src/errors.js';
import { createRetryAfterLink, type RetryOptions, type RetryWait } from '../src/link.js';
import { recordFetch, type SentRequest } from '../../../test/clients/recorded-fetch.js';
import { MODES, startGateway, startProxyBefore, type Gateway, type ProxyOnly } from '../../../test/support/gateway.js';
import { startShortWindowStore, type ShortWindowStore } from '../../../test/support/short-window-store.js';
import { getFromLists, lookups } from './lookups.js';

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

interface Connection {
  readonly url: string;
  readonly key: string;
  readonly accept?: string;
  readonly link?: typeof HttpLink | typeof BatchHttpLink;
}

interface Connected {
  readonly client: ApolloClient;
  readonly sent: readonly SentRequest[];
  readonly waits: readonly RetryWait[];
}

function connect(connection: Connection, options: RetryOptions = {}): Connected {
  const { url, key, accept, link: Link = HttpLink } = connection;
  const { fetch, sent } = recordFetch();
  const waits: RetryWait[] = [];
  const headers = { authorization: `Bearer ${key}`, ...(accept !== undefined && { accept }) };
  const http = new Link({ uri: `${url}/graphql`, headers, fetch });
  const waiting = createRetryAfterLink({ onWait: (wait) => waits.push(wait), ...options });
  const client = new ApolloClient({ link: ApolloLink.from([waiting, http]), cache: new InMemoryCache() });
  return { client, sent, waits };
}

const list = ({ client }: Pick<Connected, 'client'>, limit = 1) =>
  client.query({ query: LIST, variables: { limit }, fetchPolicy: 'no-cache', errorPolicy: 'all' });
const add = ({ client }: Pick<Connected, 'client'>, headers: Record<string, string> = {}) =>
  client.mutate({ mutation: ADD, variables: { name: 'Rex' }, errorPolicy: 'all', context: { headers } });
const codesOf = (error: unknown): unknown[] => toStoreErrors(error).map(({ code }) => code);
const statusesOf = ({ sent }: Connected): unknown[] => sent.map(({ status }) => status);
const keysOf = ({ sent }: Connected): unknown[] => sent.map(({ headers }) => headers.get('idempotency-key'));

describe.concurrent('the retry-after link, with a window that opens again', () => {
  let store: ShortWindowStore;
  let gateway: ProxyOnly;
  let keys = 0;

  beforeAll(async () => {
    store = await startShortWindowStore({ limit: 1, seconds: 3 });
    gateway = await startProxyBefore(store.url);
  });
  afterAll(async () => {
    await gateway.close();
    await store.close();
  });

  /** Creates a key that has used up its window, which the gateway knows from the response. */
  async function createUsed(): Promise<Connection> {
    const key = `key-${(keys += 1)}`;
    expect((await gateway.graphql('{ pets { id } }', { key })).status).toBe(200);
    return { url: gateway.url, key };
  }

  it('waits as long as the refusal states, then repeats the query', async () => {
    const connected = connect(await createUsed());
    const { data, error } = await list(connected);
    expect([data, error]).toEqual([{ pets: [expect.objectContaining({ name: 'Bella' })] }, undefined]);
    expect(statusesOf(connected)).toEqual([429, 200]);
    expect(connected.waits).toMatchObject([{ code: 'RATE_LIMITED', repeat: 1 }]);
    expect(connected.waits[0]?.waitMs).toBeGreaterThanOrEqual(1_000);
    expect(connected.waits[0]?.waitMs).toBeLessThanOrEqual(4_000);
  });

  it('does so if the client accepts only JSON, and gets a ServerError', async () => {
    const connected = connect({ ...(await createUsed()), accept: 'application/json' });
    expect((await list(connected)).data).toMatchObject({ pets: [{ name: 'Bella' }] });
    expect(statusesOf(connected)).toEqual([429, 200]);
  });

  it('does so for the entry of a batch', async () => {
    const connected = connect({ ...(await createUsed()), link: BatchHttpLink });
    expect((await list(connected)).data).toMatchObject({ pets: [{ name: 'Bella' }] });
    expect(connected.sent.map(({ body }): unknown => body.length)).toEqual([1, 1]);
  });

  it('repeats an addPet with the idempotency key of the application', async () => {
    const connected = connect(await createUsed());
    const { data } = await add(connected, { 'Idempotency-Key': 'order-7' });
    expect(data).toMatchObject({ addPet: { id: '7' } });
    expect(statusesOf(connected)).toEqual([429, 200]);
    expect(keysOf(connected)).toEqual(['order-7', 'order-7']);
  });

  it('gives each addPet its own idempotency key, and repeats it with that key', async () => {
    const connected = connect(await createUsed());
    expect((await add(connected)).data).toMatchObject({ addPet: { id: '7' } });
    const [first, second, ...more] = keysOf(connected);
    expect(first).toMatch(/^\d+(-\d+){3}$/);
    expect([second, more]).toEqual([first, []]);
    await add(connected);
    expect(keysOf(connected).at(-1)).toMatch(/^\d+(-\d+){3}$/);
    expect(keysOf(connected).at(-1)).not.toBe(first);
  });

  it('stops waiting when the operation is unsubscribed', async () => {
    const { client, sent, waits } = connect(await createUsed());
    const watched = client.watchQuery({ query: LIST, variables: { limit: 1 }, fetchPolicy: 'no-cache' });
    const listening = watched.subscribe({});
    await vi.waitFor(() => expect(waits).toHaveLength(1), { timeout: 20_000 });
    listening.unsubscribe();
    await new Promise((resolve) => setTimeout(resolve, (waits[0]?.waitMs ?? 0) + 500));
    expect(sent).toHaveLength(1);
  });
});

describe('the retry-after link, with a window of a minute', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway('embedded', { BAN_AFTER: '1', BAN_SECONDS: '2', ...lookups() });
  });
  afterAll(() => gateway.close());

  /** Creates a key with `left` of three requests left. */
  async function createUsed(left: number): Promise<Connection> {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 3, perDay: 100 } });
    for (let use = 3; use > left; use--) await gateway.graphql('{ pets { id } }', { key });
    return { url: gateway.url, key };
  }

  it('passes on a refusal at once if its wait is too long', async () => {
    const connected = connect(await createUsed(0), { maxWaitMs: 5_000 });
    expect(codesOf((await list(connected)).error)).toEqual(['RATE_LIMITED']);
    expect([statusesOf(connected), connected.waits]).toEqual([[429], []]);
  });

  it('never repeats an addPet without an idempotency key', async () => {
    const connected = connect(await createUsed(0), { idempotencyKeys: false });
    const { error } = await add(connected);
    expect(codesOf(error)).toEqual(['RATE_LIMITED']);
    expect(CombinedGraphQLErrors.is(error)).toBe(true);
    expect([statusesOf(connected), keysOf(connected)]).toEqual([[429], [null]]);
    expect(await gateway.sql('SELECT name FROM pets')).toEqual([]);
  });

  it('waits for the end of a short ban', async () => {
    const connection = await createUsed(1);
    const two = '{ a: pets(limit: 1) { id } b: pets(limit: 2) { id } }';
    for (let use = 0; use < 2; use++) await gateway.graphql(two, connection);
    const connected = connect(connection);
    expect((await list(connected)).data).toEqual({ pets: [] });
    expect(connected.waits).toMatchObject([{ code: 'KEY_BANNED' }]);
    expect(statusesOf(connected)).toEqual([429, 200]);
  });

  it('passes on responses with data, and errors that a wait cannot fix', async () => {
    const connected = connect(await createUsed(3));
    const [field, code] = getFromLists ? ['pets(limit: 0)', 'BAD_USER_INPUT'] : ['pet(id: "404")', 'NOT_FOUND'];
    const query = gql(`{ pets(limit: 1) { id } missing: ${field} { id } }`);
    const { data, error } = await connected.client.query({ query, errorPolicy: 'all' });
    expect([data, codesOf(error)]).toEqual([{ pets: [], missing: null }, [code]]);
    expect(codesOf((await list(connected, 500)).error)).toEqual(['BAD_USER_INPUT']);
    expect(connected.sent).toHaveLength(2);
    const unknown = connect({ url: gateway.url, key: 'pets_unknown' });
    expect(codesOf((await list(unknown)).error)).toEqual(['UNAUTHENTICATED']);
    expect(unknown.sent).toHaveLength(1);
  });

  it('gives up after five repeats', async () => {
    const waits: RetryWait[] = [];
    // Something in front of the store, such as a load balancer.
    const fetch = () =>
      Promise.resolve(new Response('<h1>busy</h1>', { status: 503, headers: { 'Retry-After': '0' } }));
    const http = new HttpLink({ uri: `${gateway.url}/graphql`, fetch });
    const waiting = createRetryAfterLink({ onWait: (wait) => waits.push(wait) });
    const client = new ApolloClient({ link: ApolloLink.from([waiting, http]), cache: new InMemoryCache() });
    expect((await list({ client })).error).toMatchObject({ statusCode: 503 });
    expect(waits.map(({ code, repeat }) => [code, repeat])).toEqual(
      [1, 2, 3, 4, 5].map((repeat) => ['SERVICE_UNAVAILABLE', repeat]),
    );
  });
});

it('the retry-after link repeats the operation even if the listener throws', async () => {
  const thrown: unknown[] = [];
  const queue = vi.spyOn(globalThis, 'queueMicrotask').mockImplementation((run) => {
    Promise.resolve()
      .then(run)
      .catch((error: unknown) => thrown.push(error));
  });
  const replies = [
    new Response('', { status: 503, headers: { 'Retry-After': '0' } }),
    Response.json({ data: { a: 1 } }),
  ];
  const http = new HttpLink({
    uri: 'http://store.example/graphql',
    fetch: () => Promise.resolve(replies.shift() as Response),
  });
  const onWait = (): void => {
    throw new Error('a bug of the page');
  };
  const client = new ApolloClient({
    link: ApolloLink.from([createRetryAfterLink({ onWait }), http]),
    cache: new InMemoryCache(),
  });
  const { data } = await client.query({
    query: gql`
      {
        a
      }
    `,
    fetchPolicy: 'no-cache',
  });
  queue.mockRestore();
  expect([data, thrown]).toEqual([{ a: 1 }, [new Error('a bug of the page')]]);
});

describe.each(MODES)('the retry-after link, if the response to an addPet is lost (%s)', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode);
  });
  afterAll(() => gateway.close());

  /** Creates a client behind a proxy that forwards the first request, loses the response and returns 503 instead. */
  async function connectBehindProxy(options: RetryOptions): Promise<Connected> {
    const { key } = await gateway.createKey();
    const { fetch, sent } = recordFetch();
    const waits: RetryWait[] = [];
    const losing: typeof globalThis.fetch = async (input, init) => {
      const answer = await fetch(input, init);
      return sent.length > 1 ? answer : new Response('', { status: 503, headers: { 'Retry-After': '0' } });
    };
    const http = new HttpLink({
      uri: `${gateway.url}/graphql`,
      headers: { authorization: `Bearer ${key}` },
      fetch: losing,
    });
    const waiting = createRetryAfterLink({ onWait: (wait) => waits.push(wait), ...options });
    const client = new ApolloClient({ link: ApolloLink.from([waiting, http]), cache: new InMemoryCache() });
    return { client, sent, waits };
  }

  const storedIds = async (): Promise<unknown[]> => (await gateway.sql('SELECT id FROM pets')).map(({ id }) => id);

  it('repeats it with its idempotency key and gets the one animal that was added', async () => {
    const before = await storedIds();
    const connected = await connectBehindProxy({});
    const { data } = await add(connected);
    const added = (await storedIds()).filter((id) => !before.includes(id));
    expect(added).toHaveLength(1);
    expect(data).toMatchObject({ addPet: { id: String(added[0]) } });
    expect(statusesOf(connected)).toEqual([200, 200]);
    expect(connected.waits).toMatchObject([{ code: 'SERVICE_UNAVAILABLE', repeat: 1 }]);
  });

  it('does not repeat it if the store ignores its own', async () => {
    const connected = await connectBehindProxy({ idempotencyKeys: false });
    expect((await add(connected, { 'Idempotency-Key': 'order-8' })).error).toMatchObject({ statusCode: 503 });
    expect(keysOf(connected)).toEqual(['order-8']);
  });

  it('does not repeat it without one', async () => {
    const before = await storedIds();
    const connected = await connectBehindProxy({ idempotencyKeys: false });
    expect((await add(connected)).error).toMatchObject({ statusCode: 503 });
    expect(statusesOf(connected)).toEqual([200]);
    expect((await storedIds()).filter((id) => !before.includes(id))).toHaveLength(1);
  });
});
