import pg from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createDatabase, startGateway, type Gateway } from '../support/gateway.js';
import { createRestClient, type RestClient } from './requests.js';

const ADDITIONS = 500;
/** In docs/rest.md, it is far longer than an addition may take. */
const OVERLAP_MS = 3_000;

let database: { url: string; drop: () => Promise<void> };
let gateways: Gateway[];
let clients: RestClient[];

beforeAll(async () => {
  database = await createDatabase();
  // Additions take all connections of the first two. Followers use the third.
  gateways = await Promise.all([1, 2, 3].map(() => startGateway('server', { DATABASE_URL: database.url })));
  const limits = { perMinute: 1_000_000, perDay: 1_000_000 };
  const { key } = await (gateways[0] as Gateway).createKey({ plan: 'enterprise', limits });
  clients = gateways.map((gateway) => createRestClient(gateway, key));
  // After the ids are given, each statement takes another time to commit.
  await (gateways[0] as Gateway).sql(`
    CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_sleep(random() * 0.5); RETURN NULL; END $$`);
  await (gateways[0] as Gateway).sql(
    'CREATE TRIGGER delay AFTER INSERT ON pets FOR EACH STATEMENT EXECUTE FUNCTION delay()',
  );
});
afterAll(async () => {
  await Promise.all(gateways.map((gateway) => gateway.close()));
  await database.drop();
});

/** Lists what was added, round after round, each from the last id of a round that ended `overlapMs` ago. */
async function follow(overlapMs: number, isOver: () => boolean) {
  const seen = new Set<number>();
  const rounds = [{ endedAt: -Infinity, last: 0 }];
  for (let isLast = false; !isLast;) {
    await sleep(50);
    isLast = isOver();
    const now = performance.now();
    while (rounds[1] && rounds[1].endedAt <= now - overlapMs) rounds.shift();
    let last = rounds[0]?.last ?? 0;
    for (let path: string | undefined = `/v1/pets?limit=100&after=${last}`; path !== undefined;) {
      const { status, body, headers } = await (clients[2] as RestClient).get(path);
      if (status === 503) continue;
      for (const { id } of body as { id: number }[]) {
        seen.add(id);
        last = id;
      }
      path = /<([^>]*)>; rel="next"/.exec(headers.get('link') ?? '')?.[1];
    }
    rounds.push({ endedAt: performance.now(), last });
  }
  return { seen, start: rounds[0]?.last ?? 0 };
}

/** Adds an animal. On a busy machine, the store may have no connection to its database in time. */
async function add(client: RestClient, n: number): Promise<number> {
  for (;;) {
    const { status, body } = await client.post(`{"name":"animal ${n}","categoryId":1}`, {
      'Idempotency-Key': `add-${n}`,
    });
    if (status === 201) return body.id as number;
    expect(status).toBe(503);
    await sleep(100);
  }
}

it('misses no animal with an overlap, although ids are given before additions are complete', async () => {
  let isOver = false;
  const careful = follow(OVERLAP_MS, () => isOver);
  const careless = follow(0, () => isOver);
  const additions = Array.from({ length: ADDITIONS }, (_, n) => add(clients[n % 2] as RestClient, n));
  // One addition is complete only after its successors.
  const slow = new pg.Client({ connectionString: database.url });
  await slow.connect();
  await slow.query('BEGIN');
  const { rows } = await slow.query<{ id: string }>(
    `INSERT INTO pets (name, category_id) VALUES ('slow', 1) RETURNING id`,
  );
  await sleep(1_000);
  await slow.query('COMMIT');
  await slow.end();
  const added = [Number(rows[0]?.id), ...(await Promise.all(additions))];
  isOver = true;
  const [{ seen, start }, missing] = await Promise.all([careful, careless]);
  expect(seen.size).toBe(ADDITIONS + 1);
  expect(added.filter((id) => !seen.has(id))).toEqual([]);
  // Each round listed only what was new and the overlap. Without it, animals were missed.
  expect(start).toBeGreaterThan(0);
  expect(added.filter((id) => !missing.seen.has(id))).toContain(Number(rows[0]?.id));
});
