import { digestApiKey, parseBearer } from '../access/api-key.js';
import type { Cooldowns } from '../access/cooldown.js';
import type { Admission, Ledger, WindowState } from '../access/ledger.js';
import { chain, type MaybePromise } from '../access/maybe-promise.js';
import { PUBLISHED_LIMITS, toWindows } from '../access/plans.js';
import { addressLimited, keyMissing, keyRefused, secondsUntil, toRefusal } from '../access/refusals.js';
import {
  KeylessSession,
  type Access,
  type AdmissionObserver,
  type Allowance,
  type Session,
  type UpstreamAnswerHead,
  type UpstreamKey,
} from '../access/session.js';
import { memoize } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import { StoreError } from '../errors.js';
import type { Keys, KeyState } from './keys.js';

export type PublishedPlan = keyof typeof PUBLISHED_LIMITS;

export interface ProxyAccessOptions {
  readonly keys: Keys;
  /** Counts the 401 responses of client addresses. */
  readonly addressLedger: Ledger;
  /** The plan of keys whose limits the upstream does not state. Without it, they are not limited. */
  readonly defaultPlan: PublishedPlan | undefined;
  /** Counts the requests of keys with the default plan. */
  readonly defaultLedger: Ledger;
  /** Absent in a gateway without Redis. */
  readonly cooldowns: Cooldowns | undefined;
  readonly observer: AdmissionObserver;
}

/** Creates the access to an upstream, which checks keys and counts requests. The gateway learns from its answers. */
export function createProxyAccess(options: ProxyAccessOptions): Access {
  const { keys, addressLedger, observer } = options;
  const digest = memoize((authorization) => {
    const key = parseBearer(authorization);
    return key === undefined ? '' : digestApiKey(key);
  });

  return {
    open(authorization, address) {
      const id = authorization === undefined ? '' : digest(authorization);
      if (id === '' || authorization === undefined) {
        return new KeylessSession(addressLedger, address, () => keyMissing(authorization), observer, false);
      }
      const state = keys.get(id);
      const explain = (): StoreError => state.refusal ?? keyRefused();
      const refusedCaller = new KeylessSession(addressLedger, address, explain, observer, true);
      return new ProxySession(id, authorization, state, refusedCaller, options);
    },
  };
}

class ProxySession implements Session, UpstreamKey {
  /** Admitted requests that have not started. */
  #admitted = 0;
  /** Admitted requests that have not ended. */
  #inFlight = 0;
  /** Makes the other requests of an unknown key wait no longer. */
  #endFirst: ((refusal?: StoreError) => void) | undefined;
  /** The windows of the default plan after the last charge. */
  #defaultWindows: readonly WindowState[] | undefined;

  constructor(
    readonly id: string,
    readonly authorization: string,
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

  get first(): Promise<StoreError | undefined> | undefined {
    return this.key.first;
  }

  requireKey(): MaybePromise<void> {
    const refusal = this.key.findRefusal();
    if (refusal?.code === 'unauthorized') return this.refusedCaller.requireKey();
    if (refusal?.code === 'key_banned') throw this.#count(refusal);
  }

  admit(cost: number): MaybePromise<void> {
    const { cooldowns } = this.options;
    if (!cooldowns || this.key.findRefusal()) return this.#admit(cost);
    return cooldowns.find(this.id).then((cooldown) => {
      if (cooldown) this.key.coolDown(cooldown);
      return this.#admit(cost);
    });
  }

  start(count: number): MaybePromise<number> {
    const { key } = this;
    const refusal = key.findRefusal() ?? (this.#admitted === 0 ? key.findLimit(1) : undefined);
    if (refusal) throw refusal;
    if (!key.isUnknown && this.#admitted >= count) {
      this.#admitted -= count;
      return count;
    }
    return key.isAccepted ? this.#startSome(count) : chain(this.#requireAddress(), () => this.#startSome(count));
  }

  finish(refusal?: StoreError): void {
    if (this.#inFlight > this.#admitted) this.#release(1);
    this.#endFirst?.(refusal);
    this.#endFirst = undefined;
  }

  findRefusal(): StoreError | undefined {
    return this.key.findRefusal();
  }

  learn(answer: UpstreamAnswerHead, sentAt: number, refusal?: StoreError): void {
    const { key, options } = this;
    key.learn(answer, sentAt, refusal);
    options.keys.keep(this.id, key);
    // It counts for the address even if the client has disconnected.
    if (refusal?.code === 'unauthorized') this.refusedCaller.requireKey().catch(() => undefined);
    const { cooldown } = key;
    if (answer.status === 429 && cooldown) options.cooldowns?.share(this.id, cooldown);
    else if (answer.status < 500) options.cooldowns?.end(this.id);
  }

  allowance(): MaybePromise<Allowance | undefined> {
    const { key } = this;
    if (this.isKeyRefused) return this.refusedCaller.allowance();
    const { windows } = key;
    if (windows.length > 0) return { plan: undefined, windows };
    const plan = this.#plan;
    if (!plan) return undefined;
    if (this.#defaultWindows) return { plan, windows: this.#defaultWindows };
    return chain(this.#charge(plan, 0), (admission) => ({ plan, windows: admission.windows }));
  }

  close(): void {
    this.#admitted = 0;
    this.#release(this.#inFlight);
    this.#endFirst?.();
  }

  /** The plan that applies to the key, if the upstream has answered without stating limits. */
  get #plan(): PublishedPlan | undefined {
    return this.key.isUnstated ? this.options.defaultPlan : undefined;
  }

  #admit(cost: number): MaybePromise<void> {
    return chain(this.requireKey(), () => {
      if (cost === 0) return;
      if (this.key.isAccepted) return this.#admitKey(cost);
      return chain(this.#requireAddress(), () => this.#admitKey(cost));
    });
  }

  #admitKey(cost: number): MaybePromise<void> {
    const { key } = this;
    const refusal = key.findRefusal(cost) ?? key.findLimit(cost);
    if (refusal) throw this.#count(refusal);
    const plan = this.#plan;
    const admitted = (): void => {
      this.options.observer.admitted(plan, cost);
      // What is admitted before anything is known of the key has to fit when it starts.
      if (!key.isUnknown) this.#hold(cost);
    };
    if (!plan || key.isUnknown) return admitted();
    return chain(this.#charge(plan, cost), (admission) => {
      const refused = toRefusal(admission, cost);
      if (refused) throw this.#count(refused);
      admitted();
    });
  }

  /** Starts requests that were admitted before anything was known of the key. */
  #startSome(count: number): MaybePromise<number> {
    const { key } = this;
    if (key.first) return 0;
    const isFirst = key.isUnknown;
    if (isFirst) this.#endFirst = key.startFirst();
    const most = isFirst ? 1 : Math.min(count, this.#admitted + key.room);
    const charged = Math.max(0, most - this.#admitted);
    this.#hold(charged);
    const start = (started: number): number => {
      this.#admitted -= started;
      return started;
    };
    const { defaultPlan } = this.options;
    if (!defaultPlan || key.isStated || charged === 0) return start(most);
    return chain(this.#charge(defaultPlan, charged), (admission) => {
      // Whether the upstream states limits is not known before it has answered.
      if (admission.outcome === 'admitted' || isFirst) return start(most);
      const room = Math.min(...admission.windows.map(({ remaining }) => remaining));
      this.#drop(charged);
      if (most > charged) return start(most - charged);
      if (charged === 1) throw toRefusal(admission, 1) as StoreError;
      return this.#startSome(Math.max(1, Math.min(room, charged - 1)));
    });
  }

  /** Refuses an address that has caused too many 401 responses, for keys that the upstream has not accepted before. */
  #requireAddress(): MaybePromise<void> {
    return chain(this.refusedCaller.allowance(), ({ windows }) => {
      const full = windows.find(({ remaining }) => remaining === 0);
      if (!full) return;
      this.options.observer.refused(undefined, 'address');
      throw addressLimited(secondsUntil(full.resetAt, monotonicNow()));
    });
  }

  #charge(plan: PublishedPlan, cost: number): MaybePromise<Admission> {
    const account = { id: this.id, windows: toWindows(PUBLISHED_LIMITS[plan]) };
    return chain(this.options.defaultLedger.admit(account, cost), (admission) => {
      this.#defaultWindows = admission.windows;
      return admission;
    });
  }

  #hold(count: number): void {
    this.#admitted += count;
    this.#inFlight += count;
    this.key.inFlight += count;
  }

  #drop(count: number): void {
    this.#admitted -= count;
    this.#release(count);
  }

  #release(count: number): void {
    this.#inFlight -= count;
    this.key.inFlight -= count;
  }

  #count(error: StoreError): StoreError {
    this.options.observer.refused(this.#plan, error.code);
    return error;
  }
}
