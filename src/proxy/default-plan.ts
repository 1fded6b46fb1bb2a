import type { Account, Admission, Ledger, WindowState } from '../access/ledger.js';
import type { MaybePromise } from '../access/maybe-promise.js';
import { findLargestCost } from '../access/memory-ledger.js';
import { PUBLISHED_LIMITS, toWindows } from '../access/plans.js';
import { operationTooLarge, rateLimited } from '../access/refusals.js';
import { toStoreError, type StoreError } from '../errors.js';
import type { Span } from '../observability/tracing.js';

/** A plan with published limits. */
export type PublishedPlan = keyof typeof PUBLISHED_LIMITS;

/** The plan of keys whose limits the upstream does not state, and the ledger that counts their requests. */
export interface DefaultPlan {
  readonly plan: PublishedPlan;
  readonly ledger: Ledger;
}

/** What the requests of one session cost by the default plan. */
export class DefaultPlanCharges {
  /** Why the plan refuses what was charged late. */
  refusal: StoreError | undefined;
  readonly #account: Account;
  #postponed = 0;
  #windows: readonly WindowState[] | undefined;

  constructor(
    keyId: string,
    private readonly span: Span,
    private readonly defaultPlan: DefaultPlan,
  ) {
    this.#account = { id: keyId, windows: toWindows(PUBLISHED_LIMITS[defaultPlan.plan]) };
  }

  /** Notes requests of a key that the upstream has not answered yet: it might state limits, or refuse the key. */
  postpone(cost: number): void {
    this.#postponed += cost;
  }

  /** Charges what was postponed, because the upstream has answered and states no limits. Never rejects. */
  async chargePostponed(): Promise<void> {
    const cost = this.#postponed;
    if (cost === 0) return;
    this.#postponed = 0;
    try {
      const refusal = await this.charge(cost);
      if (!refusal) return;
      const answered = 1;
      await this.charge(answered);
      // The first request has run, so the rest is late and not too large: a client may repeat it in parts.
      const isTooLarge = refusal.code === 'operation_too_large';
      this.refusal = isTooLarge ? await this.charge(findLargestCost(this.#account)) : refusal;
    } catch (error) {
      this.refusal = toStoreError(error);
    }
  }

  /** @returns why the plan refuses the requests */
  async charge(cost: number): Promise<StoreError | undefined> {
    const admission = await this.#admit(cost);
    this.#windows = admission.windows;
    if (admission.outcome === 'admitted') return undefined;
    return admission.outcome === 'too-large'
      ? operationTooLarge(cost, admission.limit)
      : rateLimited(admission.retryAfter, cost, admission.windows);
  }

  /** The windows after the last charge. */
  async windows(): Promise<readonly WindowState[]> {
    return this.#windows ?? (await this.#admit(0)).windows;
  }

  #admit(cost: number): MaybePromise<Admission> {
    return this.defaultPlan.ledger.admit(this.#account, cost, this.span);
  }
}
