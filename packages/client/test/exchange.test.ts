import { cacheExchange, Client, fetchExchange, gql } from '@urql/core';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createRetryAfterExchange, type RetryOptions, type RetryWait } from '../src/exchange.js';
import { recordFetch, type SentRequest } from '../../../test/clients/recorded-fetch.js';
import { startProxyBefore, type ProxyOnly } from '../../../test/support/gateway.js';
import { startShortWindowStore, type ShortWindowStore } from '../../../test/support/short-window-store.js';

const LIST = gql`
  query List {
    pets(limit: 1) {
      name
    }
  }
`;
const ADD = gql`
  mutation Add {
    addPet(input: { name: "Rex", categoryId: "1" }) {
      id
    }
  }
`;

interface Connected {
  readonly client: Client;
  readonly sent: readonly SentRequest[];
  readonly waits: readonly RetryWait[];
}

describe.concurrent('the retry-after exchange', () => {
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

  /** Creates a client with a key that has used up its window. */
  async function connect(options: RetryOptions = {}, more: Record<string, string> = {}): Promise<Connected> {
    const key = `key-${(keys += 1)}`;
    expect((await gateway.graphql('{ pets { id } }', { key })).status).toBe(200);
    const { fetch, sent } = recordFetch();
    const waits: RetryWait[] = [];
    const client = new Client({
      url: `${gateway.url}/graphql`,
      exchanges: [
        cacheExchange,
        createRetryAfterExchange({ onWait: (wait) => waits.push(wait), ...options }),
        fetchExchange,
      ],
      fetch,
      fetchOptions: () => ({ headers: { authorization: `Bearer ${key}`, ...more } }),
      preferGetMethod: false,
    });
    return { client, sent, waits };
  }

  const statusesOf = ({ sent }: Connected): unknown[] => sent.map(({ status }) => status);
  const keysOf = ({ sent }: Connected): unknown[] => sent.map(({ headers }) => headers.get('idempotency-key'));

  it('waits as long as the refusal states, then repeats the query', async () => {
    const connected = await connect();
    const { data, error } = await connected.client.query(LIST, {});
    expect([data, error]).toMatchObject([{ pets: [{ name: 'Bella' }] }, undefined]);
    expect([statusesOf(connected), keysOf(connected)]).toEqual([
      [429, 200],
      [null, null],
    ]);
    expect(connected.waits).toMatchObject([{ code: 'RATE_LIMITED', repeat: 1 }]);
    expect(connected.waits[0]?.waitMs).toBeGreaterThanOrEqual(1_000);
  });

  it('gives a mutation an idempotency key, and repeats it with that key', async () => {
    const connected = await connect();
    const { data } = await connected.client.mutation(ADD, {});
    expect(data).toMatchObject({ addPet: { id: '7' } });
    expect(statusesOf(connected)).toEqual([429, 200]);
    const [first, second] = keysOf(connected);
    expect(first).toMatch(/^\d+(-\d+){3}$/);
    expect(second).toBe(first);
  });

  it('keeps the idempotency key of the application', async () => {
    const connected = await connect({}, { 'Idempotency-Key': 'order-7' });
    expect((await connected.client.mutation(ADD, {})).error).toBeUndefined();
    expect(keysOf(connected)).toEqual(['order-7', 'order-7']);
  });

  it('never repeats a mutation without an idempotency key', async () => {
    const connected = await connect({ idempotencyKeys: false });
    const { error } = await connected.client.mutation(ADD, {});
    expect(error?.graphQLErrors[0]?.extensions.code).toBe('RATE_LIMITED');
    expect([statusesOf(connected), keysOf(connected)]).toEqual([[429], [null]]);
  });

  it('passes on a refusal at once if its wait is too long, and errors that a wait cannot fix', async () => {
    const connected = await connect({ maxWaitMs: 500 });
    expect((await connected.client.query(LIST, {})).error?.graphQLErrors[0]?.extensions.code).toBe('RATE_LIMITED');
    const { error } = await connected.client.query('{ dogs { id } }', {});
    expect(error?.graphQLErrors[0]?.extensions.code).toBe('GRAPHQL_VALIDATION_FAILED');
    expect([statusesOf(connected), connected.waits]).toEqual([[429, 422], []]);
  });

  it('stops waiting when the query is unsubscribed', async () => {
    const connected = await connect();
    const subscription = connected.client.query(LIST, {}).subscribe(() => undefined);
    await vi.waitFor(() => expect(connected.waits).toHaveLength(1), { timeout: 10_000 });
    subscription.unsubscribe();
    await new Promise((resolve) => setTimeout(resolve, (connected.waits[0]?.waitMs ?? 0) + 500));
    expect(statusesOf(connected)).toEqual([429]);
  });
});
