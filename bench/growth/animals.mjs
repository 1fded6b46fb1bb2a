import { animal as benchAnimal, NAMES } from '../data/animals.mjs';
import { DIALECTS } from '../data/dialects.mjs';
import { createRandom } from '../data/operations.mjs';
import { createChecker } from '../load/answers.mjs';
import { createRequests } from '../load/requests.mjs';
import { createDatabase } from '../machine/database.mjs';
import { table } from '../report/markdown.mjs';
import { ratio, spread } from '../report/statistics.mjs';
import { ask, forSeconds, measureCpu } from './ask.mjs';

export const SIZES = [1_000, 10_000, 100_000, 1_000_000];
const WARM_UP_SECONDS = 3;
const SETTLE_SECONDS = 0.5;
const PAGE = 20;

/**
 * So many animals that an index has to tell them apart: those of a status lie together, the most frequent after a tenth of
 * the table and the rarest at its far end. Even the smallest table has a page of each.
 */
function createStock(count) {
  const starts = { pending: 1, available: count * 0.08 + 1, sold: count * 0.98 + 1 };
  const statusOf = (id) => (id < starts.available ? 'pending' : id < starts.sold ? 'available' : 'sold');
  const animal = (id) => ({ ...benchAnimal(id), status: statusOf(id) });
  const list = (limit, status) => Array.from({ length: limit }, (_, index) => animal((starts[status] ?? 1) + index));
  const fill = async (client) => {
    // Vacuuming at its own time, it would fall on one measurement and not on another.
    await client.query('ALTER TABLE pets SET (autovacuum_enabled = false)');
    await client.query(
      `INSERT INTO pets (name, category_id, status)
       SELECT ($1::text[])[1 + id % ${NAMES.length}] || ' ' || id, 1 + id % 25,
         CASE WHEN id < $2 THEN 'pending' WHEN id < $3 THEN 'available' ELSE 'sold' END
       FROM generate_series(1, $4::int) AS id`,
      [NAMES, starts.available, starts.sold, count],
    );
    await client.query('VACUUM ANALYZE pets');
  };
  return { count, animal, list, fill };
}

function worksOf(count) {
  const random = createRandom(count);
  const lookups = (among) =>
    Array.from({ length: 1_000 }, () => {
      const ids = new Set();
      while (ids.size < 50) ids.add(String(1 + random(among)));
      return { kind: 'lookup', ids: [...ids] };
    });
  const list = (status) => [{ kind: 'list', limit: PAGE, status }];
  return {
    [`list of ${PAGE}`]: list(undefined),
    'list, pending (8 %)': list('pending'),
    'list, available (90 %)': list('available'),
    'list, sold (2 %)': list('sold'),
    '50 lookups': lookups(count),
    '50 lookups among the first 1,000': lookups(SIZES[0]),
    addPet: [{ kind: 'add', name: 'Newcomer', categoryId: '7', status: 'pending' }],
  };
}

/**
 * CPU time of a request to tables of 1,000 to 1,000,000 animals, asked by so many connections: in each round every table in
 * turn, by a program started for it, since two starts of one program differ more than two tables.
 */
export async function measureAnimals({ root, rounds, seconds, connections, sizes, start }) {
  const stocks = sizes.map(createStock);
  const databases = [];
  const figures = sizes.map(() => []);
  try {
    for (const stock of stocks) databases.push(await createDatabase(root, 1, stock));
    for (let round = 0; round < rounds; round += 1) {
      for (const [index, stock] of stocks.entries()) {
        const database = databases[index];
        const server = await start({ DATABASE_URL: database.url });
        figures[index].push({ round, works: await measureSize({ server, database, stock, seconds, connections }) });
        await server.stop();
        await database.removeAdded();
      }
      console.error(`animals: round ${round + 1} of ${rounds}`);
    }
  } finally {
    for (const database of databases) await database.drop();
  }
  return toMarkdown({ sizes, rounds, connections, figures });
}

function toMarkdown({ sizes, rounds, connections, figures }) {
  const works = Object.keys(figures[0][0].works);
  const rows = works.flatMap((work) =>
    ['program', 'postgres'].map((side) => {
      const figure = (one) => one.works[work][side];
      const { median, low, high } = ratio(figures.at(-1), figures[0], figure);
      return [
        work,
        side === 'program' ? 'this program' : 'PostgreSQL',
        ...figures.map((ofSize) => spread(ofSize, figure).median.toFixed(0)),
        `**${median.toFixed(2)}** (${low.toFixed(2)}–${high.toFixed(2)})`,
      ];
    }),
  );
  const head = ['', 'CPU µs/request of', ...sizes.map((count) => count.toLocaleString('en')), 'last ÷ first'];
  return [
    `CPU time by the number of animals, ${connections} ${connections === 1 ? 'connection' : 'connections'}, medians of ${rounds} rounds`,
    table(head, rows),
  ].join('\n\n');
}

async function measureSize({ server, database, stock, seconds, connections }) {
  const works = Object.entries(worksOf(stock.count)).map(([name, operations]) => {
    const { heads, rests } = createRequests(operations, DIALECTS.animalStore, database.keys);
    const { check } = createChecker(operations, DIALECTS.animalStore, stock);
    let sent = 0;
    const next = () => {
      const index = sent++ % rests.length;
      return { text: heads[0] + rests[index], index };
    };
    const askFor = (time) => ask({ port: server.port, connections, check, next: forSeconds(time, next) });
    return { name, askFor };
  });
  for (const { askFor } of works) await askFor(WARM_UP_SECONDS / works.length);
  await server.place(database);
  const figures = {};
  for (const { name, askFor } of works) {
    await askFor(SETTLE_SECONDS);
    figures[name] = await measureCpu({ server, database }, () => askFor(seconds));
  }
  return figures;
}
