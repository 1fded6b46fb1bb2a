import { expect, it } from 'vitest';
import { createDocumentBudget } from '../../src/graphql/limits.js';

/** As long as a document of 30 s would be. */
const LONG = ' '.repeat(10_000_000);

function start() {
  const clock = { now: Date.UTC(2026, 0, 1) };
  const budget = createDocumentBudget(() => clock.now);
  const work = (caller: string, milliseconds: number) => budget.spend(caller, LONG, () => (clock.now += milliseconds));
  return { clock, budget, work };
}

it('the budget for new documents refuses a caller that has used it up, and no other', () => {
  const { work } = start();
  work('a', 9_999);
  work('a', 20_000);
  const refusal: unknown = expect.objectContaining({ code: 'rate_limited', retryAfter: 31 });
  expect(() => work('a', 1)).toThrow(refusal);
  work('b', 1);
});

it('the budget counts work that fails and work that takes time', async () => {
  const { budget, clock } = start();
  const fail = () => {
    clock.now += 5_000;
    throw new Error('not GraphQL');
  };
  expect(() => budget.spend('a', LONG, fail)).toThrow('not GraphQL');
  await budget.spend('a', LONG, async () => {
    await Promise.resolve();
    clock.now += 5_000;
  });
  expect(() => budget.spend('a', LONG, () => 1)).toThrow('Send values as variables');
});

it('the budget starts anew after a minute', () => {
  const { clock, work } = start();
  work('a', 10_000);
  expect(() => work('a', 1)).toThrow('Send values as variables');
  clock.now += 50_000;
  work('a', 1);
});

it('the budget charges a short document no more than such a document takes, however long others run in between', () => {
  const { budget, clock } = start();
  for (let i = 0; i < 4_000; i++) {
    clock.now += 1;
    budget.spend('a', '{ pets { id } }', () => (clock.now += 10));
  }
  expect(() => budget.spend('a', '{ pets { id } }', () => 1)).not.toThrow();
});
