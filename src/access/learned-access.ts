import { createBoundedCache } from '../bounded-cache.js';
import { StoreError, type ErrorName } from '../errors.js';
import type { AdmissionObserver, AdmissionRefusal } from './admission-observer.js';
import { digestApiKey } from './api-key.js';
import type { MaybePromise } from './maybe-promise.js';
import { NO_BEARER, parseBearer } from './bearer.js';
import { LearnedKey } from './learned-key.js';
import type { Admission, Ledger, WindowState } from './ledger.js';
import type { SharedQuarantines } from './quarantine.js';
import { PUBLISHED_LIMITS, toWindows, type Plan, type PlanLimits } from './plans.js';
import { operationTooLarge, rateLimited } from './refusals.js';
import { remembering } from './remembering.js';
import { KeylessVisit } from './keyless-visit.js';
import { UnknownCaller } from './unknown-caller.js';
import type { UpstreamAnswerHead, UpstreamKey } from './upstream-key.js';
import type { Access, Allowance, Visit } from './visit.js';

export interface LearnedAccessOptions {
  /** Counts the 401 answers of client addresses. */
  readonly addressLedger: Ledger;
  /** Counts the requests of keys whose limits the upstream does not state, where a default plan is set. */
  readonly defaultLedger: Ledger;
  readonly defaultPlan: keyof typeof PUBLISHED_LIMITS | undefined;
  readonly quarantines: SharedQuarantines;
  /** How long an operation waits for the first answer about its key, in milliseconds. */
  readonly patienceMs: number;
  readonly observer: AdmissionObserver;
  /** Keys remembered at the most. */
  readonly capacity?: number;
}

/** Access to another store, which knows the keys and counts their requests: what it lets be known is learned, per key. */
export function createLearnedAccess(options: LearnedAccessOptions): Access {
  const { addressLedger, observer } = options;
  const keys = createBoundedCache<LearnedKey>(options.capacity ?? 100_000);
  const readBearer = remembering(parseBearer);
  const digest = remembering(digestApiKey);

  return {
    open(authorization, address) {
      const bearer = authorization === undefined ? NO_BEARER : readBearer(authorization);
      if (bearer.kind === 'none' || authorization === undefined) {
        return new KeylessVisit(new UnknownCaller(addressLedger, address, false, observer), false);
      }
      const id = digest(bearer.key);
      let key = keys.get(id);
      if (!key) {
        key = new LearnedKey();
        keys.set(id, key);
      }
      const refusedCaller = new UnknownCaller(addressLedger, address, true, observer);
      return new LearnedVisit(id, authorization, key, refusedCaller, options);
    },
  };
}

class LearnedVisit implements Visit, UpstreamKey {
  /** Requests admitted whose answers have not come. */
  #underWay = 0;
  #isFirst = false;
  /** What the default plan leaves, since the last operation was admitted by it. */
  #defaultWindows: readonly WindowState[] | undefined;

  constructor(
    readonly id: string,
    readonly authorization: string,
    private readonly key: LearnedKey,
    private readonly refusedCaller: UnknownCaller,
    private readonly options: LearnedAccessOptions,
  ) {}

  get upstreamKey(): UpstreamKey {
    return this;
  }

  get keyId(): string | undefined {
    return this.isKeyRefused ? undefined : `key_${this.id.slice(0, 12)}`;
  }

  get isKeyRefused(): boolean {
    return this.key.isRefused;
  }

  async requireKey(): Promise<void> {
    if (this.isKeyRefused) throw await this.refusedCaller.refuse();
    const refusal = this.key.findRefusal();
    if (refusal?.code === 'key_banned') throw this.#count(refusal);
  }

  async admit(cost: number): Promise<void> {
    if (!this.key.findRefusal()) {
      const asked = this.options.quarantines.find(this.id);
      const elsewhere = asked instanceof Promise ? await asked : asked;
      if (elsewhere) this.key.enterQuarantine(elsewhere);
    }
    await this.requireKey();
    if (cost === 0) return;
    try {
      await this.#enter(cost);
    } catch (error) {
      if (error instanceof StoreError && error.code === 'unauthorized') await this.requireKey();
      throw this.#count(error);
    }
    try {
      await this.#admitByDefaultPlan(cost);
    } catch (error) {
      this.key.release(cost);
      this.#underWay -= cost;
      throw this.#count(error);
    }
    this.options.observer.admitted(this.#plan, cost);
  }

  get #plan(): Plan | undefined {
    const { limits, isUnstated } = this.key;
    return isUnstated ? this.options.defaultPlan : toPlan(limits);
  }

  #count<T>(error: T): T {
    if (error instanceof StoreError && isAdmissionRefusal(error.code)) {
      this.options.observer.refused(this.#plan, error.code);
    }
    return error;
  }

  /** Enters the requests as under way, if the last numbers seen allow it. */
  async #enter(cost: number): Promise<void> {
    // An operation of the batch that goes first must not wait for its own batch.
    if (this.#isFirst) this.key.admitUnseen(cost);
    else this.#isFirst = await this.key.admit(cost, () => wait(this.options.patienceMs));
    this.#underWay += cost;
  }

  findRefusal(): StoreError | undefined {
    return this.key.findRefusal();
  }

  learn(answer: UpstreamAnswerHead, leftAt: number): void {
    this.key.learn(answer, leftAt);
    const { quarantine } = this.key;
    if (answer.status === 429 && quarantine) this.options.quarantines.share(this.id, quarantine);
    if (this.#underWay > 0) {
      this.#underWay -= 1;
      this.key.release(1);
    }
    if (this.#isFirst) this.#endLead(answer.status < 500 ? 'answered' : 'failed');
  }

  async allowance(): Promise<Allowance | undefined> {
    if (this.isKeyRefused) return { plan: undefined, windows: await this.refusedCaller.windows() };
    const { windows } = this.key;
    if (windows.length > 0) return { plan: toPlan(windows), windows };
    const { defaultPlan } = this.options;
    if (!defaultPlan || !this.key.isUnstated) return undefined;
    return {
      plan: defaultPlan,
      windows: this.#defaultWindows ?? (await this.#askDefaultLedger(defaultPlan, 0)).windows,
    };
  }

  close(): void {
    this.key.release(this.#underWay);
    this.#underWay = 0;
    if (this.#isFirst) this.#endLead('failed');
  }

  #endLead(lead: 'answered' | 'failed'): void {
    this.#isFirst = false;
    this.key.endLead(lead);
  }

  /** Counts here what the upstream may turn out not to count, the first requests of a key included. */
  async #admitByDefaultPlan(cost: number): Promise<void> {
    const { defaultPlan } = this.options;
    if (!defaultPlan || this.key.windows.length > 0) return;
    const admission = await this.#askDefaultLedger(defaultPlan, cost);
    this.#defaultWindows = admission.windows;
    if (admission.outcome === 'too-large') throw operationTooLarge(cost, admission.limit);
    if (admission.outcome === 'refused') throw rateLimited(admission.retryAfter, cost);
  }

  #askDefaultLedger(plan: keyof typeof PUBLISHED_LIMITS, cost: number): MaybePromise<Admission> {
    return this.options.defaultLedger.admit({ id: this.id, windows: toWindows(PUBLISHED_LIMITS[plan]) }, cost);
  }
}

function isAdmissionRefusal(code: ErrorName): code is AdmissionRefusal & ErrorName {
  return code === 'rate_limited' || code === 'key_banned' || code === 'operation_too_large';
}

const PUBLISHED = Object.entries(PUBLISHED_LIMITS) as [keyof typeof PUBLISHED_LIMITS, PlanLimits][];

/** The plan that the numbers of a key leave no doubt about. */
function toPlan(windows: LearnedKey['limits']): Plan | undefined {
  const [minute, day] = windows;
  if (minute && day && minute.seconds === 60 && day.seconds === 86_400) {
    const plan = PUBLISHED.find(([, { perMinute, perDay }]) => perMinute === minute.limit && perDay === day.limit);
    return plan?.[0] ?? 'enterprise';
  }
  if (!minute || day || minute.seconds !== null) return undefined;
  return minute.limit === 60 ? 'free' : minute.limit === 300 ? 'pro' : undefined;
}

async function wait(milliseconds: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, milliseconds).unref());
}
