import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateApiKey } from '../../src/access/api-key.js';
import { startGateway, MODES, type Gateway } from '../support/gateway.js';

interface Entry {
  readonly data?: unknown;
  readonly errors?: readonly { readonly extensions: { readonly code: string; readonly retryAfter?: number } }[];
}

let lastId = 0;
/** An operation whose fields differ from those of every other operation. */
const lookups = (count: number) => ({
  query: `{ ${Array.from({ length: count }, (_, i) => `a${i}: pet(id: ${++lastId}) { id }`).join(' ')} }`,
});
const SYNTAX_ERROR = { query: '{ pets {' };
const VALIDATION_ERROR = { query: '{ dogs { id } }' };
const FREE = { query: '{ __typename }' };

describe.each(MODES)('admission and status of batches, %s store', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode);
  });
  afterAll(() => gateway.close());

  /** Creates a key with the given numbers of requests left. Its limits are one higher, and one request is spent. */
  async function createKey(minuteLeft: number, dayLeft = 1_000): Promise<string> {
    const limits = { perMinute: minuteLeft + 1, perDay: dayLeft + 1 };
    const { key } = await gateway.createKey({ plan: 'enterprise', limits });
    expect((await gateway.graphql('{ pets { id } }', { key })).headers.get('x-ratelimit-remaining')).toBe(
      String(Math.min(minuteLeft, dayLeft)),
    );
    return key;
  }

  async function send(body: unknown, key?: string) {
    const answer = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...(key !== undefined && { Authorization: `Bearer ${key}` }) },
      body: JSON.stringify(body),
    });
    const entries = (await answer.json()) as Entry[];
    const outcomes = entries.map(({ data, errors }) => (data === undefined ? errors?.[0]?.extensions.code : 'ran'));
    return { status: answer.status, headers: answer.headers, entries, outcomes };
  }

  it('admits entries in order, and still admits a smaller one after a refusal', async () => {
    const key = await createKey(5);
    const { status, headers, outcomes } = await send([lookups(2), lookups(4), lookups(3), lookups(1)], key);
    expect(status).toBe(200);
    expect(outcomes).toEqual(['ran', 'RATE_LIMITED', 'ran', 'RATE_LIMITED']);
    expect(headers.get('x-ratelimit-remaining')).toBe('0');
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  });

  it('admits entries in order when the first is slower to prepare', async () => {
    const key = await createKey(3);
    const slow = { query: `${lookups(3).query} #${' long comment'.repeat(10_000)}` };
    expect((await send([slow, lookups(1), lookups(1)], key)).outcomes).toEqual(['ran', 'RATE_LIMITED', 'RATE_LIMITED']);
  });

  it('charges nothing for entries that fail before admission', async () => {
    const key = await createKey(2);
    const batch = [SYNTAX_ERROR, lookups(1), VALIDATION_ERROR, lookups(1), FREE, lookups(1)];
    expect((await send(batch, key)).outcomes).toEqual([
      'GRAPHQL_PARSE_FAILED',
      'ran',
      'GRAPHQL_VALIDATION_FAILED',
      'ran',
      'ran',
      'RATE_LIMITED',
    ]);
  });

  it('admits exactly up to the limit for concurrent batches of one key', async () => {
    const key = await createKey(25);
    const batches = Array.from({ length: 5 }, () => Array.from({ length: 10 }, () => lookups(1)));
    const answers = await Promise.all(batches.map((batch) => send(batch, key)));
    const outcomes = answers.flatMap((answer) => answer.outcomes);
    expect(outcomes.filter((outcome) => outcome === 'ran')).toHaveLength(25);
    expect(outcomes.filter((outcome) => outcome === 'RATE_LIMITED')).toHaveLength(25);
  });

  it('returns 200 if any entry ran', async () => {
    const key = await createKey(10);
    expect((await send([SYNTAX_ERROR, FREE], key)).status).toBe(200);
    expect((await send([FREE, SYNTAX_ERROR], key)).status).toBe(200);
    expect((await send([{ query: '{ pets(limit: 0) { id } }' }, SYNTAX_ERROR], key)).status).toBe(200);
  });

  it('returns 429 with Retry-After if every entry is over the limit', async () => {
    const key = await createKey(1);
    const { status, headers, entries, outcomes } = await send([lookups(2), lookups(2)], key);
    expect(status).toBe(429);
    expect(outcomes).toEqual(['RATE_LIMITED', 'RATE_LIMITED']);
    const waits = entries.map(({ errors }) => errors?.[0]?.extensions.retryAfter ?? 0);
    expect(Number(headers.get('retry-after'))).toBe(Math.max(...waits));
    expect(headers.get('x-ratelimit-remaining')).toBe('1');
  });

  it('returns the longest Retry-After of its entries', async () => {
    const key = await createKey(3, 5);
    await send([lookups(2)], key);
    const { status, headers, entries } = await send([lookups(2), lookups(4)], key);
    expect(status).toBe(429);
    const waits = entries.map(({ errors }) => errors?.[0]?.extensions.retryAfter ?? 0);
    expect(waits[0]).toBeLessThanOrEqual(60);
    expect(waits[1]).toBeGreaterThan(80_000);
    expect(Number(headers.get('retry-after'))).toBe(waits[1]);
  });

  it('returns 400 if no entry ran and their statuses are all 400 or differ', async () => {
    const key = await createKey(0);
    expect((await send([SYNTAX_ERROR, VALIDATION_ERROR], key)).status).toBe(400);
    const mixed = await send([SYNTAX_ERROR, lookups(1)], key);
    expect(mixed.outcomes).toEqual(['GRAPHQL_PARSE_FAILED', 'RATE_LIMITED']);
    expect(mixed.status).toBe(400);
    expect(Number(mixed.headers.get('retry-after'))).toBeGreaterThan(0);
    const tooLarge = await send([lookups(1), lookups(2)], key);
    expect(tooLarge.outcomes).toEqual(['RATE_LIMITED', 'OPERATION_TOO_LARGE']);
    expect(tooLarge.status).toBe(400);
  });

  it('returns 401 with the challenge if every entry needs a key and none was sent', async () => {
    const { status, headers, outcomes } = await send([lookups(1), lookups(2)]);
    expect(status).toBe(401);
    expect(outcomes).toEqual(['UNAUTHENTICATED', 'UNAUTHENTICATED']);
    expect(headers.get('www-authenticate')).toBe('Bearer realm="animal-store"');
  });

  it('serves an entry that needs no key', async () => {
    const { status, outcomes } = await send([lookups(1), FREE]);
    expect(status).toBe(200);
    expect(outcomes).toEqual(['UNAUTHENTICATED', 'ran']);
  });

  it('returns 401 for an invalid key, whatever the entries are', async () => {
    const { status, headers } = await gateway.graphql('{ pets { id } }', { key: 'wrong' });
    expect([status, headers.get('www-authenticate')]).toEqual([
      401,
      'Bearer realm="animal-store", error="invalid_token"',
    ]);
    const answer = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: 'Bearer wrong' },
      body: JSON.stringify([FREE, lookups(1)]),
    });
    expect(answer.status).toBe(401);
    expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="animal-store", error="invalid_token"');
  });

  it('returns one error for a key that is refused, whether or not it was seen before', async () => {
    const key = generateApiKey();
    for (const batch of [[lookups(1)], [lookups(1), lookups(2)], [SYNTAX_ERROR, lookups(1)]]) {
      const answer = await gateway.fetch('/graphql', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${batch.length}${key}` },
        body: JSON.stringify(batch),
      });
      expect(answer.status).toBe(401);
      expect(answer.headers.get('www-authenticate')).toContain('error="invalid_token"');
      expect(await answer.json()).toEqual({
        errors: [expect.objectContaining({ extensions: expect.objectContaining({ code: 'UNAUTHENTICATED' }) })],
      });
    }
  });

  it('accepts persisted queries as entries', async () => {
    const key = await createKey(10);
    const { query } = lookups(1);
    const persisted = (text: string) => ({
      extensions: { persistedQuery: { version: 1, sha256Hash: createHash('sha256').update(text).digest('hex') } },
    });
    await send([{ query, ...persisted(query) }], key);
    const { outcomes } = await send([persisted(query), persisted('never sent'), FREE], key);
    expect(outcomes).toEqual(['ran', 'PERSISTED_QUERY_NOT_FOUND', 'ran']);
  });
});
