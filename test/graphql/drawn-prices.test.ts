import { afterAll, beforeAll, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';
import { createRandom, draw } from './drawn-operations.js';

const OPERATIONS = Number(process.env.PRICED_OPERATIONS ?? 300);
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
/** The field rateLimit is served 60 times a minute for each key, and each operation uses it twice. */
const OPERATIONS_PER_KEY = 30;

let gateway: Gateway;

beforeAll(async () => {
  gateway = await startGateway('server');
  await gateway.sql(`INSERT INTO pets (name, category_id) SELECT 'Animal ' || n, 1 FROM generate_series(1, 10) AS n`);
});
afterAll(() => gateway.close());

it(`the price of a dry run is what the operation then charges, and the dry run charges nothing, seed ${seed}`, async () => {
  const random = createRandom(seed);
  const costs = new Set<number>();
  let key = '';
  let left = 0;
  for (let count = 0; count < OPERATIONS;) {
    const { query, variables } = draw(random);
    // A mutation cannot be priced.
    if (!query.startsWith('query')) continue;
    if (count % OPERATIONS_PER_KEY === 0) {
      ({ key } = await gateway.createKey({ plan: 'business' }));
      left = 1_000;
    }
    count += 1;
    const priced = query
      .replace('query Q(', 'query Q($dry: Boolean!, ')
      .replace(') {', ') { price: rateLimit(dryRun: $dry) { cost windows { remaining } }');
    const run = async (dry: boolean) => {
      const { data, headers } = await gateway.graphql(priced, { key, variables: { ...variables, dry } });
      const { cost, windows } = data.price as { cost: number; windows: { remaining: number }[] };
      return { data, cost, remaining: windows[0]?.remaining, header: Number(headers.get('x-ratelimit-remaining')) };
    };
    const about = `seed ${seed}: ${query} ${JSON.stringify(variables)}`;
    const dry = await run(true);
    expect([dry.remaining, dry.header], about).toEqual([left, left]);
    const others = Object.entries(dry.data as object).filter(([name, value]) => name !== 'price' && value !== 'Query');
    expect(
      others.filter(([, value]) => value !== null),
      about,
    ).toEqual([]);
    const charged = await run(false);
    left -= dry.cost;
    expect([charged.cost, charged.remaining, charged.header], about).toEqual([dry.cost, left, left]);
    costs.add(dry.cost);
  }
  // Otherwise the draw has become one-sided.
  expect(costs.size).toBeGreaterThan(4);
});
