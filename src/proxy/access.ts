import { digestApiKey, parseBearer } from '../access/api-key.js';
import type { Cooldowns } from '../access/cooldown.js';
import type { Ledger, WindowState } from '../access/ledger.js';
import { chain, type MaybePromise } from '../access/maybe-promise.js';
import { PUBLISHED_LIMITS, toWindows } from '../access/plans.js';
import { addressLimited, keyMissing, keyRefused, secondsUntil, toRefusal } from '../access/refusals.js';
import * as session from '../access/session.js';
import { monotonicNow } from '../clock.js';
import type { StoreError } from '../errors.js';
import type { Keys, KeyState } from './keys.js';

export interface ProxyAccessOptions {
  readonly keys: Keys;
  /** Counts the 401 responses of client addresses. */
  readonly addressLedger: Ledger;
  /** The plan of keys whose limits the upstream has not stated. Without it, they are not limited. */
  readonly defaultPlan: keyof typeof PUBLISHED_LIMITS | undefined;
  /** Counts the requests of keys with the default plan. */
  readonly defaultLedger: Ledger;
  /** Absent in a gateway without Redis. */
  readonly cooldowns: Cooldowns | undefined;
  readonly observer: session.AdmissionObserver;
}

/** Creates the access to an upstream, which admits operations by what the upstream has said of their keys. */
export function createProxyAccess(options: ProxyAccessOptions): session.Access {
  const { keys, addressLedger, observer } = options;
  return {
    open(authorization, address) {
      const bearer = parseBearer(authorization);
      if (bearer === undefined || authorization === undefined)
        return new session.KeylessSession(addressLedger, address, keyMissing, observer, false);
      const id = digestApiKey(bearer);
      const key = keys.get(id);
      const explain = (): StoreError => key.findRefusal() ?? keyRefused();
      const refused = new session.KeylessSession(addressLedger, address, explain, observer, true);
      return new ProxySession(id, authorization, key, refused, options);
    },
  };
}

class ProxySession implements session.Session, session.UpstreamKey {
  /** Whether requests count as in flight from their admission. Those of an unknown key have to fit when they start. */
  #isReserved = false;
  #inFlight = 0;
  /** The windows of the default plan after the last charge. */
  #defaultWindows: readonly WindowState[] | undefined;

  constructor(
    readonly id: string,
    readonly authorization: string,
    private readonly key: KeyState,
    /** Counts the 401 responses of the address. */
    private readonly refused: session.KeylessSession,
    private readonly options: ProxyAccessOptions,
  ) {}

  get upstreamKey(): session.UpstreamKey {
    return this;
  }

  get keyId(): string | undefined {
    return this.isKeyRefused ? undefined : `key_${this.id.slice(0, 12)}`;
  }

  get isKeyAccepted(): boolean {
    return this.key.isAccepted;
  }

  get isKeyRefused(): boolean {
    return this.findRefusal()?.code === 'unauthorized';
  }

  get isUnknown(): boolean {
    return this.key.isUnknown;
  }

  requireKey(): MaybePromise<void> {
    const refusal = this.key.findRefusal(0);
    if (refusal?.code === 'unauthorized') return this.refused.requireKey();
    if (refusal?.code === 'key_banned') throw this.#count(refusal);
  }

  admit(cost: number): MaybePromise<void> {
    const { cooldowns } = this.options;
    if (!cooldowns || this.findRefusal()) return this.#admit(cost);
    return cooldowns.find(this.id).then((cooldown) => {
      if (cooldown) this.key.coolDown(cooldown);
      return this.#admit(cost);
    });
  }

  explain(error: StoreError): StoreError {
    return error;
  }

  start(): StoreError | undefined {
    if (this.#isReserved) return this.findRefusal();
    const refusal = this.findRefusal() ?? this.key.findLimit(1);
    this.#addInFlight(1);
    return refusal;
  }

  finish(): void {
    if (this.#inFlight > 0) this.#addInFlight(-1);
  }

  findRefusal(): StoreError | undefined {
    return this.key.findRefusal();
  }

  learn(answer: session.UpstreamAnswerHead, sentAt: number, refusal?: StoreError): void {
    const { id, key, options } = this;
    key.learn(answer, sentAt, refusal);
    options.keys.keep(id, key);
    // It counts for the address even if the client has disconnected.
    if (refusal?.code === 'unauthorized') this.refused.requireKey().catch(() => undefined);
    if (answer.status === 429 && key.cooldown) options.cooldowns?.share(id, key.cooldown);
    else if (answer.status < 500) options.cooldowns?.end(id);
  }

  allowance(): MaybePromise<session.Allowance | undefined> {
    if (this.isKeyRefused) return this.refused.allowance();
    const { windows, isUnknown } = this.key;
    const plan = this.#plan;
    if (windows.length > 0) return { plan, windows };
    if (!plan || isUnknown) return undefined;
    if (this.#defaultWindows) return { plan, windows: this.#defaultWindows };
    return chain(this.#charge(plan, 0), ({ windows }) => ({ plan, windows }));
  }

  close(): void {
    this.#addInFlight(-this.#inFlight);
  }

  get #plan() {
    return this.key.isStated ? undefined : this.options.defaultPlan;
  }

  #admit(cost: number): MaybePromise<void> {
    return chain(this.requireKey(), () => {
      if (cost > 0) return this.key.isAccepted ? this.#admitKey(cost) : this.#admitUnseen(cost);
    });
  }

  /** Refuses an address that has caused too many 401 responses. */
  async #admitUnseen(cost: number): Promise<void> {
    const { windows } = await this.refused.allowance();
    const full = windows.find(({ remaining }) => remaining === 0);
    if (!full) return this.#admitKey(cost);
    this.options.observer.refused(undefined, 'address');
    throw addressLimited(secondsUntil(full.resetAt, monotonicNow()));
  }

  #admitKey(cost: number): MaybePromise<void> {
    const { key } = this;
    const refusal = key.findRefusal(cost) ?? key.findLimit(cost);
    if (refusal) throw this.#count(refusal);
    const plan = this.#plan;
    return chain(plan && this.#charge(plan, cost), (admission) => {
      const refusal = admission && toRefusal(admission, cost);
      if (refusal) throw this.#count(refusal);
      this.options.observer.admitted(plan, cost);
      this.#isReserved ||= !key.isUnknown;
      if (this.#isReserved) this.#addInFlight(cost);
    });
  }

  #charge(plan: keyof typeof PUBLISHED_LIMITS, cost: number) {
    const account = { id: this.id, windows: toWindows(PUBLISHED_LIMITS[plan]) };
    return chain(this.options.defaultLedger.admit(account, cost), (admission) => {
      this.#defaultWindows = admission.windows;
      return admission;
    });
  }

  #addInFlight(count: number): void {
    this.#inFlight += count;
    this.key.inFlight += count;
  }

  #count(error: StoreError): StoreError {
    this.options.observer.refused(this.#plan, error.code);
    return error;
  }
}
