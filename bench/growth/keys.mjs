import { DIALECTS } from '../data/dialects.mjs';
import { createChecker } from '../load/answers.mjs';
import { createRequests } from '../load/requests.mjs';
import { createDatabase } from '../machine/database.mjs';
import { table, toRatio } from '../report/markdown.mjs';
import { ask, forSeconds, measureCpu } from './ask.mjs';
import { insertKeys } from './insert-keys.mjs';

const COUNTS = [1, 100, 10_000, 100_000];
const CONNECTIONS = 32;
const WARM_UP_SECONDS = 4;
const LEAST_REQUESTS = 20_000;
const OPERATIONS = [{ kind: 'list', limit: 20, literal: true }];

/** CPU time of a list of 20 while the program gets to know 1 to 100,000 keys. */
export async function measureKeys({ root, start }) {
  const database = await createDatabase(root, 1);
  try {
    const keys = await insertKeys(database.client, COUNTS.at(-1));
    await database.client.query('VACUUM ANALYZE api_keys');
    const server = await start({ DATABASE_URL: database.url });
    const { check } = createChecker(OPERATIONS, DIALECTS.animalStore);
    const askWith = (next) => ask({ port: server.port, connections: CONNECTIONS, check, next });
    const measure = (next) => measureCpu({ server, database }, () => askWith(next));

    await askWith(forSeconds(WARM_UP_SECONDS, inTurn(database.keys, Infinity)));
    await server.place(database);
    const rows = [];
    let seen = 0;
    for (const count of COUNTS) {
      const news = keys.slice(seen, count);
      const first = await measure(inTurn(news, news.length));
      seen = count;
      const known = keys.slice(0, count);
      const warm = await measure(inTurn(known, Math.max(LEAST_REQUESTS, count)));
      const one = await measure(inTurn(known.slice(0, 1), LEAST_REQUESTS));
      rows.push({ count, first: news.length < 1_000 ? undefined : first, warm, one });
    }
    await server.stop();
    return toMarkdown(rows);
  } finally {
    await database.drop();
  }
}

/** So many requests, each with the next key. */
function inTurn(keys, requests) {
  const { heads, rests } = createRequests(OPERATIONS, DIALECTS.animalStore, keys);
  let sent = 0;
  return () => (sent < requests ? { text: heads[sent++ % heads.length] + rests[0], index: 0 } : undefined);
}

function toMarkdown(rows) {
  const line = (title, figuresOf, side) => {
    const figures = rows.map(figuresOf).map((figures) => figures?.[side]);
    return [
      title,
      side === 'program' ? 'this program' : 'PostgreSQL',
      ...figures.map((micros) => micros?.toFixed(0) ?? '–'),
      toRatio(figures.filter((micros) => micros !== undefined)),
    ];
  };
  const both = (title, figuresOf) => ['program', 'postgres'].map((side) => line(title, figuresOf, side));
  const head = ['', 'CPU µs/request of', ...rows.map(({ count }) => count.toLocaleString('en')), 'last ÷ first'];
  return [
    `CPU time of a list of 20 by the number of keys, ${CONNECTIONS} connections`,
    table(head, [
      ...both('keys never seen before', ({ first }) => first),
      ...both('all of them in turn', ({ warm }) => warm),
      ...both('one of them, after all have been seen', ({ one }) => one),
    ]),
  ].join('\n\n');
}
