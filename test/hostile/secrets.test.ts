import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';

const KEYS = 20;
/** Few, because a gateway tries the refused keys of an address one at a time. */
const WRONG_KEYS = 5;

describe.each(MODES)('the secrets of twenty keys, %s store', (mode) => {
  let gateway: Gateway;
  let secrets: string[];
  /** The headers and bodies of all responses. */
  const answers: string[] = [];

  beforeAll(async () => {
    gateway = await startGateway(mode, { LOG_LEVEL: 'trace' });
    secrets = await Promise.all(Array.from({ length: KEYS }, async () => (await gateway.createKey()).key));
    const wrong = secrets
      .slice(0, WRONG_KEYS)
      .map((secret) => `${secret.slice(0, -1)}${secret.endsWith('a') ? 'b' : 'a'}`);
    for (const secret of [...secrets, ...wrong]) await useEverywhere(secret);
    secrets.push(...wrong);
  });
  afterAll(() => gateway.close());

  async function useEverywhere(secret: string): Promise<void> {
    const headers = { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' };
    const post = (body: string, more: Record<string, string> = {}): [string, RequestInit] => [
      '/graphql',
      { method: 'POST', headers: { ...headers, ...more }, body },
    ];
    const requests: [string, RequestInit][] = [
      post('{"query":"{ pets(limit: 1) { id } rateLimit { plan } }"}'),
      post('{"query":"mutation { addPet(input: { name: \\"Rex\\", categoryId: 1 }) { id } }"}', {
        'Idempotency-Key': 'k',
      }),
      post('{"query":"{ pet(id: \\"x\\") { id } a: pet(id: 999999) { id } }"}'),
      post('{"query":"{ pet(id: 1) { id } }"}', { 'apollographql-client-name': `key ${secret}` }),
      ['/v1/pets/1', { headers: { ...headers, 'apollographql-client-name': secret } }],
      post('{"query":"{ nonsense"}'),
      post('{"query":'),
      post('[{"query":"{ pets { id } }"},{"query":"{ nonsense }"}]'),
      post('{"query":"{ pets { id } }"}', { Accept: 'text/plain' }),
      post('{"query":"{ pets { id } }"}', { Authorization: secret }),
      post('{"query":"{ pets { id } }"}', { Authorization: `Bearer ${secret} ${secret}` }),
      ['/graphql?query={pets{id}}', { headers }],
      ['/v1/pets?limit=0', { headers }],
      ['/v1/pets?limit=1', { headers }],
      ['/v1/pets/999999', { headers }],
      ['/v1/pets', { method: 'POST', headers, body: '{"name":' }],
      ['/v1/pets', { method: 'DELETE', headers }],
      ['/nowhere', { headers }],
      [`/v1/pets/${secret}`, { headers }],
      [`/${secret}`, {}],
      post('{"query":"{ pets { id } }"}', { 'X-Request-Id': secret }),
      post(`{"query":"query ${secret} { pets { id } }"}`),
      post(`{"documentId":"${secret}"}`),
    ];
    await Promise.all(
      requests.map(async ([path, init]) => {
        const response = await gateway.fetch(path, init);
        answers.push(JSON.stringify([...response.headers]) + (await response.text()));
      }),
    );
  }

  /** Finds secrets in a text, in plain form, hexadecimal or base64. */
  function heldBy(text: string): string[] {
    return secrets.filter((secret) => {
      const random = secret.slice('pets_'.length, -1);
      const bytes = Buffer.from(secret);
      return [random, bytes.toString('hex'), bytes.toString('base64').slice(0, 40)].some((form) => text.includes(form));
    });
  }

  it('do not appear in responses, the trace log or metrics', async () => {
    const logged = [gateway, ...(gateway.upstream ? [gateway.upstream] : [])].map(({ logged: lines }) =>
      JSON.stringify(lines),
    );
    const metrics = await (await gateway.fetch('/metrics')).text();
    const texts = [answers.join('\n'), ...logged, metrics];
    for (const text of texts) expect(heldBy(text)).toEqual([]);
    console.log(
      `${mode}: ${secrets.length} secrets in none of ${answers.length} answers, ${logged.join('').length} characters of log, ${metrics.length} of metrics`,
    );
    expect(answers.length).toBe(secrets.length * 23);
    expect(logged.join('').length).toBeGreaterThan(100_000);
  });

  it('do not appear in a dump of the database', async () => {
    const redacted = `SELECT sum(requests)::int AS calls FROM usage WHERE client = '(redacted)'`;
    const calls = mode === 'proxy' ? KEYS : 2 * KEYS;
    await expect.poll(() => gateway.sql(redacted), { timeout: 20_000 }).toEqual([{ calls }]);
    const tables = await gateway.sql<{ name: string }>(
      `SELECT table_schema || '.' || table_name AS name FROM information_schema.tables WHERE table_schema = 'public'`,
    );
    expect(tables.map(({ name }) => name)).toContain('public.api_keys');
    let dump = '';
    for (const { name } of tables) {
      const rows = await gateway.sql<{ text: string }>(`SELECT t::text AS text FROM ${name} t`);
      dump += rows.map(({ text }) => text).join('\n');
    }
    expect(dump.length).toBeGreaterThan(10_000);
    expect(heldBy(dump)).toEqual([]);
  });
});
