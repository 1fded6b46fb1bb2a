import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePlace, type Place, type Program } from '../support/process.js';

// Each of these uses up the time that a caller has for new documents in a minute: ten seconds.
describe('new documents', () => {
  let place: Place;
  let program: Program;
  let documents = 0;

  beforeAll(async () => {
    place = await makePlace();
    program = await place.start({ PORT: '0' });
  });
  afterAll(() => place.close());

  const createKey = async (): Promise<string> => {
    const limits = ['--per-minute', '10000', '--per-day', '10000'];
    const { stdout } = await place.keys(['create', '--plan', 'enterprise', ...limits, '--json']);
    return (JSON.parse(stdout) as { key: string }).key;
  };

  function ask(body: unknown, authorization?: string): Promise<Response> {
    const headers = { 'Content-Type': 'application/json', ...(authorization && { Authorization: authorization }) };
    return program.fetch('/graphql', { method: 'POST', headers, body: JSON.stringify(body) });
  }

  /** A document that costs nothing but the time to check it. */
  function toNewDocument(part: (index: number) => string): { readonly query: string } {
    documents += 1;
    return { query: `query Q${documents} { __typename ${Array.from({ length: 99 }, (_, i) => part(i)).join(' ')} }` };
  }
  const toSkippedLists = () => toNewDocument((i) => `a${i}: pets @skip(if: true) { id name }`);
  const toSchemas = () => toNewDocument((i) => `a${i}: __schema { description }`);

  /** Sends batches of new documents until one gets no answer but refusals. `before` comes before each batch. */
  async function askUntilRefused(
    toDocument: () => object,
    authorization?: string,
    before?: () => Promise<unknown>,
  ): Promise<Response> {
    for (let sent = 0; sent < 2_000; sent += 1) {
      await before?.();
      const response = await ask(Array.from({ length: 20 }, toDocument), authorization);
      if (response.status !== 200) return response;
      await response.text();
    }
    throw new Error('nothing was refused');
  }

  it('are refused beyond the budget of a key, which still gets what is known; other keys are served', async () => {
    const [key, other] = [`Bearer ${await createKey()}`, `Bearer ${await createKey()}`];
    const known = { query: '{ pets(limit: 1) { id } }' };
    let asked = 0;
    const askKnown = (): Promise<Response> => {
      asked += 1;
      return ask(known, key);
    };
    const before = await askKnown();
    // What is used no more makes room for new documents.
    const refused = await askUntilRefused(toSkippedLists, key, askKnown);
    expect(refused.status).toBe(429);
    const [{ errors }] = (await refused.json()) as [{ errors: { extensions: Record<string, unknown> }[] }];
    expect(errors[0]?.extensions).toMatchObject({ code: 'RATE_LIMITED', retryAfter: expect.any(Number) as number });
    expect(refused.headers.get('retry-after')).toBe(String(errors[0]?.extensions.retryAfter));
    const after = await askKnown();
    expect(after.status).toBe(200);
    const left = ({ headers }: Response): number => Number(headers.get('x-ratelimit-remaining'));
    expect(left(after)).toBe(left(before) - asked + 1);
    expect((await ask(toSkippedLists(), other)).status).toBe(200);
  });

  it('are not charged to the address of a valid key, not even its first', async () => {
    expect((await askUntilRefused(toSchemas)).status).toBe(429);
    expect((await ask(toSkippedLists(), `Bearer ${await createKey()}`)).status).toBe(200);
    expect((await ask(toSkippedLists(), `Bearer ${' '.repeat(300)}${await createKey()}`)).status).toBe(200);
  });
});
