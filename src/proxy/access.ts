import { digestApiKey, parseBearer } from '../access/api-key.js';
import type { Cooldowns } from '../access/cooldown.js';
import type { Admission, Ledger, WindowState } from '../access/ledger.js';
import type { MaybePromise } from '../access/maybe-promise.js';
import { PUBLISHED_LIMITS, toWindows } from '../access/plans.js';
import { addressLimited, keyMissing, keyRefused, secondsUntil, toRefusal } from '../access/refusals.js';
import * as session from '../access/session.js';
import { monotonicNow } from '../clock.js';
import type { ProxyConfig } from '../config.js';
import { toStoreError, type StoreError } from '../errors.js';
import type { Keys, KeyState } from './keys.js';

export interface ProxyAccessOptions {
  readonly findKey: Keys;
  /** Counts 401 responses. */
  readonly addressLedger: Ledger;
  /** The plan of keys whose limits the upstream does not state. */
  readonly defaultPlan: ProxyConfig['defaultPlan'];
  readonly defaultLedger: Ledger;
  /** Absent without Redis. */
  readonly cooldowns: Cooldowns | undefined;
  readonly observer: session.AdmissionObserver;
}

/** Creates the access to an upstream, which admits operations by what the upstream has said of their keys. */
export function createProxyAccess(options: ProxyAccessOptions): session.Access {
  return {
    open(authorization = '', address) {
      const bearer = parseBearer(authorization);
      if (bearer !== undefined) return new ProxySession(digestApiKey(bearer), authorization, address, options);
      return new session.KeylessSession(options.addressLedger, address, keyMissing, options.observer, false);
    },
  };
}

class ProxySession implements session.Session, session.UpstreamKey {
  readonly upstreamKey = this;
  readonly #key: KeyState;
  #keyless: session.KeylessSession | undefined;
  /** Admitted requests that `inFlight` does not have yet. Those of a key whose limits are not known are added by `start`. */
  #unreserved = 0;
  /** Whether the key's limits were known before. After the request that goes first, the rest then has to fit. */
  #isWhole = false;
  #inFlight = 0;
  /** Of the address, if they are why the request was refused. */
  #addressWindows: readonly WindowState[] | undefined;
  /** The windows of the default plan after the last charge. */
  #defaultWindows: readonly WindowState[] | undefined;

  constructor(
    readonly id: string,
    readonly authorization: string,
    private readonly address: string,
    private readonly options: ProxyAccessOptions,
  ) {
    this.#key = options.findKey(id);
  }

  get keyId(): string | undefined {
    return this.isKeyRefused ? undefined : `key_${this.id.slice(0, 12)}`;
  }

  get isKeyAccepted(): boolean {
    return this.#key.isAccepted;
  }

  get isKeyRefused(): boolean {
    return this.findRefusal()?.code === 'unauthorized';
  }

  get isUnknown(): boolean {
    return this.#key.isUnknown;
  }

  requireKey(): MaybePromise<void> {
    if (this.isKeyRefused) return this.#toKeyless().requireKey();
    this.#requireRoom(0);
    if (!this.isKeyAccepted) return this.#requireRoomForAddress();
  }

  admit(cost: number): MaybePromise<void> {
    if (this.options.cooldowns || !this.isKeyAccepted || this.#plan) return this.#admitLater(cost);
    this.#requireRoom(cost);
    this.#reserve(cost);
  }

  async #admitLater(cost: number): Promise<void> {
    const { cooldowns } = this.options;
    const known = this.#key.cooldown;
    // It may have begun while Redis was unavailable.
    if (known) cooldowns?.share(this.id, known);
    else if (!this.findRefusal()) {
      const shared = await cooldowns?.find(this.id);
      if (shared) this.#key.coolDown(shared);
    }
    await this.requireKey();
    if (cost === 0) return;
    this.#requireRoom(cost);
    const plan = this.#plan;
    const excess = plan && toRefusal(await this.#charge(plan, cost), cost);
    if (excess) throw this.#count(excess);
    this.#reserve(cost);
  }

  start(): StoreError | undefined {
    const refusal = this.findRefusal();
    if (this.#unreserved === 0) return refusal;
    const rest = this.#isWhole ? this.#unreserved : 1;
    const limit = this.#key.findLimit(rest);
    const count = limit || this.isUnknown ? 1 : rest;
    if (!limit) this.#unreserved -= count;
    this.#addInFlight(count);
    return refusal ?? limit;
  }

  finish(): void {
    if (this.#inFlight > 0) this.#addInFlight(-1);
  }

  findRefusal(): StoreError | undefined {
    return this.#key.findRefusal();
  }

  get isExhausted(): boolean {
    return this.#key.isExhausted;
  }

  learn(answer: session.UpstreamAnswerHead, sentAt: number, error?: StoreError): void {
    this.#key.learn(answer, sentAt, error);
    const { cooldowns } = this.options;
    // It counts for the address even if the client has disconnected.
    if (this.#key.isRefusedBy(answer))
      this.#toKeyless()
        .requireKey()
        .catch(() => undefined);
    else if (answer.status === 429 && this.#key.cooldown) cooldowns?.share(this.id, this.#key.cooldown);
  }

  async explain(error: StoreError): Promise<StoreError> {
    if (error.code !== 'unauthorized') return error;
    const refusal = await this.#toKeyless().requireKey().catch(toStoreError);
    return refusal.code === 'rate_limited' ? refusal : error;
  }

  allowance(): MaybePromise<session.Allowance | undefined> {
    if (this.isKeyRefused) return this.#toKeyless().allowance();
    if (this.#addressWindows) return { plan: undefined, windows: this.#addressWindows };
    const { windows, isUnknown } = this.#key;
    const plan = this.#plan;
    if (windows.length > 0) return { plan: undefined, windows };
    if (!plan || (isUnknown && !this.isKeyAccepted)) return undefined;
    if (this.#defaultWindows) return { plan, windows: this.#defaultWindows };
    return this.#charge(plan, 0).then((admission) => ({ plan, windows: admission.windows }));
  }

  close(): void {
    this.#addInFlight(-this.#inFlight);
  }

  get #plan() {
    return this.#key.isStated ? undefined : this.options.defaultPlan;
  }

  /** Counts the 401 responses of the address. */
  #toKeyless(): session.KeylessSession {
    const { addressLedger, observer } = this.options;
    const explain = (): StoreError => this.findRefusal() ?? keyRefused();
    return (this.#keyless ??= new session.KeylessSession(addressLedger, this.address, explain, observer, true));
  }

  async #requireRoomForAddress(): Promise<void> {
    const { windows } = await this.#toKeyless().allowance();
    const full = windows.find(({ remaining }) => remaining === 0);
    if (!full) return;
    this.#addressWindows = windows;
    this.options.observer.refused(undefined, 'address');
    throw addressLimited(secondsUntil(full.resetAt, monotonicNow()));
  }

  /** A ban refuses also what is free. */
  #requireRoom(cost: number): void {
    const refusal = this.#key.findRefusal(cost) ?? this.#key.findLimit(cost, this.#unreserved);
    if (refusal && (cost > 0 || refusal.code === 'key_banned')) throw this.#count(refusal);
  }

  #reserve(cost: number): void {
    if (cost === 0) return;
    this.options.observer.admitted(this.#plan, cost);
    this.#unreserved += cost;
    this.#isWhole = this.#key.isStated;
    if (this.isUnknown && this.#inFlight === 0) return;
    this.#addInFlight(this.#unreserved);
    this.#unreserved = 0;
  }

  async #charge(plan: keyof typeof PUBLISHED_LIMITS, cost: number): Promise<Admission> {
    const account = { id: this.id, windows: toWindows(PUBLISHED_LIMITS[plan]) };
    const admission = await this.options.defaultLedger.admit(account, cost);
    this.#defaultWindows = admission.windows;
    return admission;
  }

  #addInFlight(count: number): void {
    this.#inFlight += count;
    this.#key.inFlight += count;
  }

  #count(error: StoreError): StoreError {
    this.options.observer.refused(this.#plan, error.code);
    return error;
  }
}
