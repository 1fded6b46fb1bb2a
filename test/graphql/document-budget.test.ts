import { describe, expect, it } from 'vitest';
import { createMemoryLedger } from '../../src/access/memory-ledger.js';
import { createDocumentBudget } from '../../src/graphql/document-limits.js';

describe('the budget for new documents', () => {
  const create = () => {
    const clock = { now: Date.UTC(2026, 0, 1) };
    return { clock, budget: createDocumentBudget(() => createMemoryLedger({ now: () => clock.now })) };
  };

  it('refuses a caller that has used it up, and no other', () => {
    const { budget } = create();
    budget.charge('a', 9_999);
    budget.require('a');
    budget.charge('a', 50_000);
    expect(() => budget.require('a')).toThrow(
      expect.objectContaining({ code: 'rate_limited', retryAfter: expect.any(Number) }),
    );
    budget.require('b');
  });

  it('starts anew after a minute', () => {
    const { budget, clock } = create();
    budget.charge('a', 10_000);
    expect(() => budget.require('a')).toThrow('Send values as variables');
    clock.now += 60_000;
    budget.require('a');
  });
});
