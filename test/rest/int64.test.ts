import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, STORES, type Gateway } from '../support/gateway.js';
import { createRestClient, type RestClient } from './requests.js';

const NAMED = [
  '9007199254740991',
  '9007199254740992',
  '9007199254740993',
  '-9007199254740993',
  '9223372036854775806',
  '9223372036854775807',
  '-9223372036854775807',
  '-9223372036854775808',
  '4294967296',
  '-1',
  '0',
];

/** The number of random identifiers. Set `INT64_IDS=10000` for a longer run. */
const COUNT = Number(process.env.INT64_IDS ?? 300);

describe.each(STORES)('int64 identifiers over REST, %s store', (mode) => {
  let gateway: Gateway;
  let client: RestClient;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    const limits = { perMinute: 100_000, perDay: 100_000 };
    const { key } = await gateway.createKey({ plan: 'enterprise', limits });
    client = createRestClient(gateway, key);
  });
  afterAll(() => gateway.close());

  it.each(NAMED)('stores and returns the categoryId %s exactly', async (categoryId) => {
    const added = await client.post(`{"name":"Rex","categoryId":${categoryId}}`);
    expect(added.status).toBe(201);
    const { id } = added.body as { id: number };
    expect(added.text).toBe(`{"id":${id},"name":"Rex","categoryId":${categoryId}}`);
    expect((await client.get(`/v1/pets/${id}`)).text).toBe(added.text);
    expect(await gateway.sql('SELECT category_id::text AS text FROM pets WHERE id = $1', [id])).toEqual([
      { text: categoryId },
    ]);
  });

  it('finds and lists animals by their exact identifiers, in numeric order', async () => {
    await gateway.sql('DELETE FROM pets');
    await gateway.sql(
      `INSERT INTO pets (id, name, category_id) SELECT id, 'Rex', -id FROM unnest($1::bigint[]) AS id`,
      [NAMED.filter((id) => id !== '-9223372036854775808')],
    );
    await gateway.sql(`INSERT INTO pets (id, name, category_id) VALUES (-9223372036854775808, 'Rex', 0)`);
    for (const id of NAMED) expect((await client.get(`/v1/pets/${id}`)).text).toContain(`"id":${id},`);
    expect(idsOf((await client.get('/v1/pets')).text)).toEqual([...NAMED].sort(byValue));
  });

  it('distinguishes adjacent identifiers that are equal as floating-point numbers', async () => {
    await gateway.sql('DELETE FROM pets');
    await gateway.sql(`INSERT INTO pets (id, name, category_id) VALUES (9007199254740993, 'odd', 9007199254740992)`);
    expect((await client.get('/v1/pets/9007199254740992')).status).toBe(404);
    expect((await client.get('/v1/pets/9007199254740993')).text).toBe(
      '{"id":9007199254740993,"name":"odd","categoryId":9007199254740992}',
    );
  });

  it('returns the exact assigned identifier in the body and in Location', async () => {
    await gateway.sql('ALTER TABLE pets ALTER COLUMN id RESTART WITH 9223372036854775806');
    for (const id of ['9223372036854775806', '9223372036854775807']) {
      const { status, headers, text } = await client.post('{"name":"Rex","categoryId":1}');
      expect(status).toBe(201);
      expect(text).toBe(`{"id":${id},"name":"Rex","categoryId":1}`);
      expect(headers.get('location')).toBe(`/v1/pets/${id}`);
    }
    await gateway.sql('ALTER TABLE pets ALTER COLUMN id RESTART WITH 1');
  });

  it('stores and returns random identifiers exactly', async () => {
    const categoryIds = randomInt64s(COUNT);
    const texts = await inTens(categoryIds, async (categoryId) => {
      const { text } = await client.post(`{"name":"Rex","categoryId":${categoryId}}`);
      return text;
    });
    expect(texts.map((text) => /"categoryId":(-?\d+)\}$/.exec(text)?.[1])).toEqual(categoryIds);
  });

  it('finds animals by random identifiers in the path', async () => {
    await gateway.sql('DELETE FROM pets');
    const ids = randomInt64s(COUNT);
    await gateway.sql(`INSERT INTO pets (id, name, category_id) SELECT id, 'Rex', id FROM unnest($1::bigint[]) AS id`, [
      ids,
    ]);
    const texts = await inTens(ids, async (id) => (await client.get(`/v1/pets/${id}`)).text);
    expect(texts).toEqual(ids.map((id) => `{"id":${id},"name":"Rex","categoryId":${id}}`));
    const listed = idsOf((await client.get('/v1/pets?limit=100')).text);
    expect(listed).toEqual([...ids].sort(byValue).slice(0, 100));
  });
});

/** Distinct identifiers of every magnitude and both signs. */
function randomInt64s(count: number): string[] {
  const ids = new Set<string>();
  for (let drawn = 0; ids.size < count; drawn++) {
    const [value] = crypto.getRandomValues(new BigInt64Array(1)) as unknown as [bigint];
    ids.add(String(value >> BigInt(drawn % 60)));
  }
  return [...ids];
}

async function inTens<T>(ids: readonly string[], ask: (id: string) => Promise<T>): Promise<T[]> {
  const answers: T[] = [];
  for (let start = 0; start < ids.length; start += 10) {
    answers.push(...(await Promise.all(ids.slice(start, start + 10).map(ask))));
  }
  return answers;
}

function idsOf(text: string): string[] {
  return Array.from(text.matchAll(/"id":(-?\d+)/g), ([, id]) => id as string);
}

function byValue(a: string, b: string): number {
  return BigInt(a) < BigInt(b) ? -1 : 1;
}
