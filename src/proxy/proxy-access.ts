import type { AdmissionObserver, AdmissionRefusal } from '../access/admission-observer.js';
import { digestApiKey } from '../access/api-key.js';
import { parseBearer } from '../access/bearer.js';
import { KeylessSession } from '../access/keyless-session.js';
import type { Ledger, WindowState } from '../access/ledger.js';
import { memoize } from '../access/memoize.js';
import { PUBLISHED_LIMITS, type Plan, type PlanLimits } from '../access/plans.js';
import { keyMissing, keyRefused } from '../access/refusals.js';
import type { Access, Allowance, Session } from '../access/session.js';
import type { UpstreamAnswerHead, UpstreamKey } from '../access/upstream-key.js';
import { StoreError, withCost, type ErrorName } from '../errors.js';
import type { Span } from '../observability/tracing.js';
import { DefaultPlanCharges, type DefaultPlan, type PublishedPlan } from './default-plan.js';
import type { KeyState, KeyStates, ProbeEnd, SharedCooldowns } from './key-state.js';
import type { EndTrial, KeyTrials } from './key-trials.js';

export interface ProxyAccessOptions {
  readonly keys: KeyStates;
  readonly trials: KeyTrials;
  /** Counts the 401 responses of client addresses. */
  readonly addressLedger: Ledger;
  /** Without it, keys whose limits the upstream does not state are not limited. */
  readonly defaultPlan: DefaultPlan | undefined;
  /** Absent in a gateway without Redis. */
  readonly cooldowns: SharedCooldowns | undefined;
  readonly isUpstreamFailing: () => boolean;
  /** How long an operation waits for the first answer about its key, in milliseconds. */
  readonly probeWaitMs: number;
  readonly observer: AdmissionObserver;
}

/** Creates the access to an upstream, which checks keys and counts requests. The gateway learns from its answers. */
export function createProxyAccess(options: ProxyAccessOptions): Access {
  const { keys, addressLedger, observer } = options;
  const readBearer = memoize(parseBearer);
  const digest = memoize(digestApiKey);

  return {
    open(authorization, address, span) {
      const key = authorization === undefined ? undefined : readBearer(authorization);
      if (key === undefined || authorization === undefined) {
        return new KeylessSession(addressLedger, address, () => keyMissing(authorization), observer, span, false);
      }
      const id = digest(key);
      const state = keys.get(id);
      const explain = (): StoreError => state.refusal ?? keyRefused();
      const refusedCaller = new KeylessSession(addressLedger, address, explain, observer, span, true);
      return new ProxySession(id, authorization, address, state, refusedCaller, span, options);
    },
  };
}

class ProxySession implements Session, UpstreamKey {
  /** Admitted requests of this session without an answer so far. */
  #inFlight = 0;
  #endTrial: EndTrial | undefined;
  /** Whether the rest of the probe's requests is still to be checked against limits, and why it does not fit. */
  #isUnchecked = false;
  #restRefusal: StoreError | undefined;
  readonly #defaultCharges: DefaultPlanCharges | undefined;

  constructor(
    readonly id: string,
    readonly authorization: string,
    private readonly address: string,
    private readonly key: KeyState,
    private readonly refusedCaller: KeylessSession,
    private readonly span: Span,
    private readonly options: ProxyAccessOptions,
  ) {
    const { defaultPlan } = options;
    this.#defaultCharges = defaultPlan && new DefaultPlanCharges(id, span, defaultPlan);
  }

  get upstreamKey(): UpstreamKey {
    return this;
  }

  get keyId(): string | undefined {
    return this.isKeyRefused ? undefined : `key_${this.id.slice(0, 12)}`;
  }

  get isKeyAccepted(): boolean {
    return this.key.isAccepted;
  }

  get isKeyRefused(): boolean {
    return this.key.refusal !== undefined;
  }

  get areLimitsUnknown(): boolean {
    return this.key.areLimitsUnknown;
  }

  async requireKey(): Promise<void> {
    if (this.isKeyRefused) await this.refusedCaller.requireKey();
    const refusal = this.key.findRefusal();
    if (refusal?.code === 'key_banned') throw this.#count(refusal);
  }

  async admit(cost: number): Promise<void> {
    await this.#findSharedCooldown();
    await this.requireKey();
    if (cost === 0) return;
    try {
      await this.#admitByUpstreamLimits(cost);
      await this.#admitByDefaultPlan(cost);
    } catch (error) {
      // The upstream may have refused the key while the operation waited.
      if (error instanceof StoreError && error.code === 'unauthorized') await this.requireKey();
      throw this.#count(error);
    }
    this.options.observer.admitted(this.#plan, cost);
  }

  findRefusal(): StoreError | undefined {
    if (this.#isUnchecked && !this.areLimitsUnknown) {
      this.#isUnchecked = false;
      this.#restRefusal = this.key.findRestRefusal(this.#inFlight);
    }
    return this.key.findRefusal() ?? this.#restRefusal ?? this.#defaultCharges?.refusal;
  }

  learn(answer: UpstreamAnswerHead, sentAt: number, refusal?: StoreError): void {
    this.key.learn(answer, sentAt, refusal);
    const { cooldown } = this.key;
    this.options.keys.keep(this.id, this.key);
    if (answer.status === 429 && cooldown) this.options.cooldowns?.share(this.id, cooldown);
    const hasFailed = answer.status >= 500;
    // After a failure, the request may be sent again.
    if (this.#inFlight > 0 && !hasFailed) this.#release(1);
    if (this.key.areLimitsUnstated) void this.#defaultCharges?.chargePostponed();
    this.#endProbe({ hasFailed, refusal }, hasFailed);
  }

  async allowance(): Promise<Allowance | undefined> {
    if (this.isKeyRefused) return this.refusedCaller.allowance();
    const { windows, areLimitsUnstated } = this.key;
    if (windows.length > 0) return { plan: toPlan(windows), windows };
    const charges = areLimitsUnstated ? this.#defaultCharges : undefined;
    return charges && { plan: this.options.defaultPlan?.plan, windows: await charges.windows() };
  }

  close(): void {
    this.#release(this.#inFlight);
    this.#endProbe({ hasFailed: true });
  }

  get #plan(): Plan | undefined {
    return this.key.areLimitsUnstated ? this.options.defaultPlan?.plan : toPlan(this.key.policies);
  }

  async #findSharedCooldown(): Promise<void> {
    if (this.key.findRefusal()) return;
    const cooldown = await this.options.cooldowns?.find(this.id, this.span);
    if (cooldown) this.key.coolDown(cooldown);
  }

  async #admitByUpstreamLimits(cost: number): Promise<void> {
    // The operation before this one got no answer.
    this.#endProbe({ hasFailed: true });
    this.#restRefusal = undefined;
    const isProbe = await this.key.admit(cost, performance.now() + this.options.probeWaitMs, this);
    this.#inFlight += cost;
    this.#isUnchecked = isProbe;
    if (!isProbe || this.key.isAccepted) return;
    try {
      this.#endTrial = await this.options.trials.start(this.address, this.key);
    } catch (error) {
      this.#release(this.#inFlight);
      this.#endProbe({ hasFailed: false });
      throw error instanceof StoreError ? withCost(error, cost) : error;
    }
  }

  async #admitByDefaultPlan(cost: number): Promise<void> {
    const charges = this.#defaultCharges;
    if (!charges || !this.key.areLimitsUnstated) return charges?.postpone(cost);
    const refusal = await charges.charge(cost);
    if (!refusal) return;
    this.#release(cost);
    throw refusal;
  }

  #release(count: number): void {
    this.key.release(count);
    this.#inFlight -= count;
  }

  /** Ends the probe of this session, if it has one. Without an answer, the upstream may have failed or the client left. */
  #endProbe(end: ProbeEnd, hasUpstreamFailed = this.options.isUpstreamFailing()): void {
    this.#endTrial?.(hasUpstreamFailed);
    this.#endTrial = undefined;
    this.key.endProbe(this, end);
  }

  #count<T>(error: T): T {
    if (error instanceof StoreError && isAdmissionRefusal(error.code))
      this.options.observer.refused(this.#plan, error.code);
    return error;
  }
}

function isAdmissionRefusal(code: ErrorName): code is AdmissionRefusal & ErrorName {
  return code === 'rate_limited' || code === 'key_banned' || code === 'operation_too_large';
}

const PUBLISHED = Object.entries(PUBLISHED_LIMITS) as [PublishedPlan, PlanLimits][];

/** The plan of these windows, if their numbers leave no doubt. */
function toPlan(windows: readonly Pick<WindowState, 'seconds' | 'limit'>[]): Plan | undefined {
  const [minute, day] = windows;
  if (minute && day && minute.seconds === 60 && day.seconds === 86_400) {
    const plan = PUBLISHED.find(([, { perMinute, perDay }]) => perMinute === minute.limit && perDay === day.limit);
    return plan?.[0] ?? 'enterprise';
  }
  if (!minute || day || minute.seconds !== null) return undefined;
  return minute.limit === 60 ? 'free' : minute.limit === 300 ? 'pro' : undefined;
}
