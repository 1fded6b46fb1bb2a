import { digestApiKey, parseBearer } from '../access/api-key.js';
import {
  KeylessSession,
  type Access,
  type AdmissionObserver,
  type Allowance,
  type ProbeEnd,
  type Session,
  type UpstreamAnswerHead,
  type UpstreamKey,
} from '../access/session.js';
import type { Admission, Ledger, WindowState } from '../access/ledger.js';
import type { MaybePromise } from '../access/maybe-promise.js';
import { memoize } from '../bounded-cache.js';
import { PUBLISHED_LIMITS, toWindows, type Plan } from '../access/plans.js';
import { keyMissing, keyRefused, toRefusal } from '../access/refusals.js';
import { StoreError, withCost } from '../errors.js';
import type { Cooldowns } from '../access/cooldown.js';
import type { KeyState, KeyStates } from './key-state.js';
import type { EndTrial, StartTrial } from './key-trials.js';
import type { PublishedPlan } from './limit-state.js';

export interface ProxyAccessOptions {
  readonly keys: KeyStates;
  readonly startTrial: StartTrial;
  /** Counts the 401 responses of client addresses. */
  readonly addressLedger: Ledger;
  /** The plan of keys whose limits the upstream does not state. Without it, they are not limited. */
  readonly defaultPlan: PublishedPlan | undefined;
  /** Counts the requests of keys with the default plan. */
  readonly defaultLedger: Ledger;
  /** Absent in a gateway without Redis. */
  readonly cooldowns: Cooldowns | undefined;
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
    open(authorization, address) {
      const key = authorization === undefined ? undefined : readBearer(authorization);
      if (key === undefined || authorization === undefined) {
        return new KeylessSession(addressLedger, address, () => keyMissing(authorization), observer, false);
      }
      const id = digest(key);
      const state = keys.get(id);
      const explain = (): StoreError => state.refusal ?? keyRefused();
      const refusedCaller = new KeylessSession(addressLedger, address, explain, observer, true);
      return new ProxySession(id, authorization, address, state, refusedCaller, options);
    },
  };
}

class ProxySession implements Session, UpstreamKey {
  /** Admitted requests of this session without an answer so far. */
  #inFlight = 0;
  /** True if requests were admitted while nothing was known of the limits. The first answer settles whether they fit. */
  #isUnsettled = false;
  /** Why they do not fit into the default plan. It counts if the upstream states no limits. */
  #defaultRefusal: StoreError | undefined;
  /** Why the rest of them does not fit. */
  #lateRefusal: StoreError | undefined;
  #endTrial: EndTrial | undefined;
  /** The windows of the default plan after the last charge. */
  #defaultWindows: readonly WindowState[] | undefined;

  constructor(
    readonly id: string,
    readonly authorization: string,
    private readonly address: string,
    private readonly key: KeyState,
    private readonly refusedCaller: KeylessSession,
    private readonly options: ProxyAccessOptions,
  ) {}

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
    return this.key.limits.isUnknown;
  }

  async requireKey(): Promise<void> {
    if (this.isKeyRefused) await this.refusedCaller.requireKey();
    const refusal = this.key.findRefusal();
    if (refusal?.code === 'key_banned') throw this.#count(refusal);
  }

  async admit(cost: number): Promise<void> {
    if (!this.key.findRefusal()) {
      const cooldown = await this.options.cooldowns?.find(this.id);
      if (cooldown) this.key.coolDown(cooldown);
    }
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
    const { limits } = this.key;
    if (this.#isUnsettled && !limits.isUnknown) {
      this.#isUnsettled = false;
      this.#lateRefusal = limits.isUnstated ? this.#defaultRefusal : limits.findRestRefusal(this.#inFlight);
    }
    return this.key.findRefusal() ?? this.#lateRefusal;
  }

  findProbe(): Promise<ProbeEnd> | undefined {
    return this.key.findProbe(this);
  }

  sendProbe(): () => void {
    return this.key.sendProbe(this);
  }

  learn(answer: UpstreamAnswerHead, sentAt: number, refusal?: StoreError): void {
    this.key.learn(answer, sentAt, refusal);
    const { cooldown } = this.key;
    this.options.keys.keep(this.id, this.key);
    if (answer.status === 429 && cooldown) this.options.cooldowns?.share(this.id, cooldown);
    else if (answer.status < 500) this.options.cooldowns?.end(this.id);
    const hasFailed = answer.status >= 500;
    // After a failure, the request may be sent again.
    if (this.#inFlight > 0 && !hasFailed) this.#release(1);
    this.#endProbe({ hasFailed, refusal }, hasFailed);
  }

  explain(error: StoreError): StoreError {
    return error;
  }

  async allowance(): Promise<Allowance | undefined> {
    if (this.isKeyRefused) return this.refusedCaller.allowance();
    const { limits } = this.key;
    const { defaultPlan } = this.options;
    const { windows } = limits;
    if (windows.length > 0) return { plan: limits.plan, windows };
    if (!limits.isUnstated || !defaultPlan) return undefined;
    return { plan: defaultPlan, windows: this.#defaultWindows ?? (await this.#askDefaultPlan(defaultPlan, 0)).windows };
  }

  close(): void {
    this.#release(this.#inFlight);
    this.#endProbe({ hasFailed: true });
  }

  get #plan(): Plan | undefined {
    const { limits } = this.key;
    return limits.isUnstated ? this.options.defaultPlan : limits.plan;
  }

  async #admitByUpstreamLimits(cost: number): Promise<void> {
    // The operation before this one got no answer.
    this.#endProbe({ hasFailed: true });
    this.#lateRefusal = undefined;
    const isProbe = await this.key.admit(cost, performance.now() + this.options.probeWaitMs, this);
    this.#inFlight += cost;
    if (!isProbe || this.key.isAccepted) return;
    try {
      this.#endTrial = await this.options.startTrial(this.address, this.key);
    } catch (error) {
      this.#release(this.#inFlight);
      this.#endProbe({ hasFailed: false });
      throw error instanceof StoreError ? withCost(error, cost) : error;
    }
  }

  /** Charges the default plan unless the upstream states limits. Before its first answer, a refusal has to wait for it. */
  async #admitByDefaultPlan(cost: number): Promise<void> {
    const { limits } = this.key;
    const { defaultPlan } = this.options;
    this.#isUnsettled ||= limits.isUnknown;
    if (!defaultPlan || limits.isStated) return;
    const admission = await this.#askDefaultPlan(defaultPlan, cost);
    this.#defaultWindows = admission.windows;
    this.#defaultRefusal = toRefusal(admission, cost);
    if (!this.#defaultRefusal) return;
    if (!limits.isUnstated) {
      const probe = 1;
      this.#defaultWindows = (await this.#askDefaultPlan(defaultPlan, probe)).windows;
      return;
    }
    this.#release(cost);
    throw this.#defaultRefusal;
  }

  #askDefaultPlan(plan: PublishedPlan, cost: number): MaybePromise<Admission> {
    const account = { id: this.id, windows: toWindows(PUBLISHED_LIMITS[plan]) };
    return this.options.defaultLedger.admit(account, cost);
  }

  /** Removes requests that have been answered or never will be. */
  #release(count: number): void {
    this.key.limits.inFlight -= count;
    this.#inFlight -= count;
  }

  /** Ends the probe of this session, if it has one. Without an answer, the upstream may have failed or the client left. */
  #endProbe(end: ProbeEnd, hasUpstreamFailed = this.options.isUpstreamFailing()): void {
    this.#endTrial?.(hasUpstreamFailed);
    this.#endTrial = undefined;
    this.key.endProbe(this, end);
  }

  #count<T>(error: T): T {
    if (error instanceof StoreError) this.options.observer.refused(this.#plan, error.code);
    return error;
  }
}
