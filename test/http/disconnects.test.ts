import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDatabase, startGateway, type Gateway } from '../support/gateway.js';
import { until } from '../support/process.js';
import { statementWaits, whileLocked } from '../support/table-lock.js';

describe('a client that disconnects while the store is busy', () => {
  let database: { url: string; drop: () => Promise<void> };
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    database = await createDatabase();
    gateway = await startGateway('server', { DATABASE_URL: database.url, LOG_LEVEL: 'info' });
    ({ key } = await gateway.createKey());
  });
  afterAll(async () => {
    await gateway.close();
    await database.drop();
  });

  it.each([
    ['a REST list', '/v1/pets', undefined],
    ['a REST lookup', '/v1/pets/1', undefined],
    ['a REST addition', '/v1/pets', { name: 'Rex', categoryId: 1 }],
    ['a GraphQL list', '/graphql', { query: '{ pets { id } }' }],
    ['a GraphQL batch', '/graphql', [{ query: '{ pets { id } }' }, { query: '{ pet(id: "1") { id } }' }]],
  ])('is logged with status 499, and as no failure of the program: %s', async (_, path, body) => {
    const ask = (signal: AbortSignal | null): Promise<Response> =>
      gateway.fetch(path, {
        method: body ? 'POST' : 'GET',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: body ? JSON.stringify(body) : null,
        signal,
      });
    const first = await whileLocked(database.url, async () => {
      const waiting = ask(null);
      await statementWaits(database.url);
      gateway.logged.length = 0;
      // While a statement runs, the next one waits for up to 20 ms, so some of these leave before and some after it
      // began.
      for (let milliseconds = 4; milliseconds <= 40; milliseconds += 4) {
        const leaving = ask(AbortSignal.timeout(milliseconds));
        await expect(leaving).rejects.toThrow('aborted');
      }
      // On a busy machine, the first may leave before they are sent.
      await until('most are logged', () => gateway.logged.filter(({ msg }) => msg === 'request').length >= 6);
      return { waiting };
    });
    await first.waiting;
    await gateway.graphql('{ pets { id } }', { key });
    expect(gateway.logged.filter(({ level }) => Number(level) > 40)).toEqual([]);
    expect(gateway.logged[0]).toMatchObject({ path, status: 499 });
  });

  it('is logged, too, if its key was still being looked up', async () => {
    const { key: other } = await gateway.createKey();
    gateway.logged.length = 0;
    const work = async (): Promise<void> => {
      const leaving = gateway.fetch('/v1/pets', {
        method: 'POST',
        headers: { authorization: `Bearer ${other}`, 'content-type': 'application/json' },
        body: '{"name":"Rex","categoryId":1}',
        signal: AbortSignal.timeout(300),
      });
      await expect(leaving).rejects.toThrow('aborted');
    };
    await whileLocked(database.url, work, 'api_keys');
    await until('it is logged', () => gateway.logged.some(({ path, status }) => path === '/v1/pets' && status === 499));
  });
});
