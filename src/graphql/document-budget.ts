import type { Account, Admission } from '../access/ledger.js';
import { secondsUntil } from '../access/refusals.js';
import { monotonicNow } from '../clock.js';
import { StoreError } from '../errors.js';

/** Counts synchronously, such as a memory ledger. */
export interface LocalLedger {
  admit(account: Account, cost: number): Admission;
}

/** Milliseconds a minute: a sixth of a core, enough for some ten thousand small documents. */
const BUDGET_MS = 10_000;

/**
 * Creates the limit of the time that each caller may have the program spend on new documents. It is separate from the
 * plan of a key, and each instance counts for itself.
 * @param ledger - counts milliseconds, for this budget only
 */
export function createDocumentBudget(ledger: LocalLedger, budgetMs = BUDGET_MS) {
  const windows = [{ name: 'minute', seconds: 60, limit: budgetMs }] as const;

  return {
    /** @throws StoreError `rate_limited` when the caller has used up its time */
    require(caller: string): void {
      const { remaining, resetAt } = look(caller);
      if (remaining > 0) return;
      const retryAfter = secondsUntil(resetAt, monotonicNow());
      throw new StoreError(
        'rate_limited',
        'This server has spent too much time on new documents from you. Send values as variables, so that one document ' +
          `serves many requests. Retry in ${retryAfter} s.`,
        { retryAfter, graphqlOnly: true },
      );
    },
    charge(caller: string, milliseconds: number): void {
      ledger.admit({ id: caller, windows }, Math.min(milliseconds, look(caller).remaining));
    },
  };

  function look(caller: string) {
    const [window] = ledger.admit({ id: caller, windows }, 0).windows;
    if (!window) throw new Error('the budget has no window');
    return window;
  }
}

export type DocumentBudget = ReturnType<typeof createDocumentBudget>;
