import { expect, it } from 'vitest';
import { createDocumentBudget } from '../../src/graphql/limits.js';

/** As long as a document of 30 s would be. */
const LONG = ' '.repeat(10_000_000);

function start() {
  const clock = { now: Date.UTC(2026, 0, 1) };
  const budget = createDocumentBudget(() => clock.now);
  const work = (caller: string, milliseconds: number) =>
    budget(caller, LONG, () => Promise.resolve((clock.now += milliseconds)));
  return { clock, budget, work };
}

it('the budget for new documents refuses a caller that has used it up, and no other', async () => {
  const { work } = start();
  await work('a', 9_999);
  await work('a', 20_000);
  await expect(work('a', 1)).rejects.toMatchObject({ code: 'rate_limited', retryAfter: 31 });
  await work('b', 1);
});

it('the budget counts work that fails', async () => {
  const { budget, clock } = start();
  const fail = async () => {
    await Promise.resolve();
    clock.now += 10_000;
    throw new Error('not GraphQL');
  };
  await expect(budget('a', LONG, fail)).rejects.toThrow('not GraphQL');
  await expect(budget('a', LONG, fail)).rejects.toThrow('Send values as variables');
});

it('the budget starts anew after a minute', async () => {
  const { clock, work } = start();
  await work('a', 10_000);
  await expect(work('a', 1)).rejects.toThrow('Send values as variables');
  clock.now += 50_000;
  await work('a', 1);
});

it('the budget charges a short document no more than such a document takes, however long others run in between', async () => {
  const { budget, clock } = start();
  for (let i = 0; i < 4_000; i++) {
    clock.now += 1;
    await budget('a', '{ pets { id } }', () => Promise.resolve((clock.now += 10)));
  }
  await budget('a', '{ pets { id } }', () => Promise.resolve(1));
});
