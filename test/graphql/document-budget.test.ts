import { expect, it } from 'vitest';
import { createDocumentBudget } from '../../src/graphql/limits.js';

function start() {
  const clock = { now: Date.UTC(2026, 0, 1) };
  const budget = createDocumentBudget(() => clock.now);
  const work = (caller: string, milliseconds: number) => budget.spend(caller, () => (clock.now += milliseconds));
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
  expect(() => budget.spend('a', fail)).toThrow('not GraphQL');
  await budget.spend('a', async () => {
    await Promise.resolve();
    clock.now += 5_000;
  });
  expect(() => budget.spend('a', () => 1)).toThrow('Send values as variables');
});

it('the budget starts anew after a minute', () => {
  const { clock, work } = start();
  work('a', 10_000);
  expect(() => work('a', 1)).toThrow('Send values as variables');
  clock.now += 50_000;
  work('a', 1);
});
