import { digestApiKey, parseBearer } from '../access/api-key.js';
import type { Cooldowns } from '../access/cooldown.js';
import type { Admission, Ledger, WindowState } from '../access/ledger.js';
import type { MaybePromise } from '../access/maybe-promise.js';
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
  return {
    open(authorization, address) {
      const bearer = parseBearer(authorization);
      if (bearer !== undefined && authorization !== undefined)
        return new ProxySession(digestApiKey(bearer), authorization, address, options);
      return new session.KeylessSession(options.addressLedger, address, keyMissing, options.observer, false);
    },
  };
}

class ProxySession implements session.Session, session.UpstreamKey {
  readonly #key: KeyState;
  #keyless: session.KeylessSession | undefined;
  /** Whether requests count as in flight from their admission. Those of an unknown key have to fit when they start. */
  #isReserved = false;
  #inFlight = 0;
  /** The windows of the default plan after the last charge. */
  #defaultWindows: readonly WindowState[] | undefined;

  constructor(
    readonly id: string,
    readonly authorization: string,
    private readonly address: string,
    private readonly options: ProxyAccessOptions,
  ) {
    this.#key = options.keys.get(id);
  }

  get upstreamKey(): session.UpstreamKey {
    return this;
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
    const refusal = this.#key.findRefusal(0);
    if (refusal?.code === 'unauthorized') return this.#toKeyless().requireKey();
    if (refusal?.code === 'key_banned') throw this.#count(refusal);
  }

  async admit(cost: number): Promise<void> {
    const { cooldowns, observer } = this.options;
    const cooldown = cooldowns && !this.findRefusal() ? await cooldowns.find(this.id) : undefined;
    if (cooldown) this.#key.coolDown(cooldown);
    await this.requireKey();
    if (cost === 0) return;
    if (!this.isKeyAccepted) await this.#requireRoomForAddress();
    const refusal = this.#key.findRefusal(cost) ?? this.#key.findLimit(cost);
    if (refusal) throw this.#count(refusal);
    const plan = this.#plan;
    const excess = plan && toRefusal(await this.#charge(plan, cost), cost);
    if (excess) throw this.#count(excess);
    observer.admitted(plan, cost);
    this.#isReserved ||= !this.isUnknown;
    if (this.#isReserved) this.#addInFlight(cost);
  }

  start(): StoreError | undefined {
    if (this.#isReserved) return this.findRefusal();
    const refusal = this.findRefusal() ?? this.#key.findLimit(1);
    this.#addInFlight(1);
    return refusal;
  }

  finish(): void {
    if (this.#inFlight > 0) this.#addInFlight(-1);
  }

  findRefusal(): StoreError | undefined {
    return this.#key.findRefusal();
  }

  learn(answer: session.UpstreamAnswerHead, sentAt: number, refusal?: StoreError): void {
    const { keys, cooldowns } = this.options;
    this.#key.learn(answer, sentAt, refusal);
    keys.keep(this.id, this.#key);
    // It counts for the address even if the client has disconnected.
    if (refusal?.code === 'unauthorized')
      this.#toKeyless()
        .requireKey()
        .catch(() => undefined);
    if (answer.status === 429 && this.#key.cooldown) cooldowns?.share(this.id, this.#key.cooldown);
    else if (answer.status < 500) cooldowns?.end(this.id);
  }

  async allowance(): Promise<session.Allowance | undefined> {
    if (this.isKeyRefused) return this.#toKeyless().allowance();
    const { windows, isUnknown } = this.#key;
    if (windows.length > 0) return { plan: undefined, windows };
    const plan = this.#plan;
    if (!plan || isUnknown) return undefined;
    return { plan, windows: this.#defaultWindows ?? (await this.#charge(plan, 0)).windows };
  }

  close(): void {
    this.#addInFlight(-this.#inFlight);
  }

  get #plan() {
    return this.#key.isStated ? undefined : this.options.defaultPlan;
  }

  /** The session of a client without a valid key, which counts the 401 responses of its address. */
  #toKeyless(): session.KeylessSession {
    const { addressLedger, observer } = this.options;
    const explain = (): StoreError => this.findRefusal() ?? keyRefused();
    return (this.#keyless ??= new session.KeylessSession(addressLedger, this.address, explain, observer, true));
  }

  /** Refuses an address that has caused too many 401 responses. */
  async #requireRoomForAddress(): Promise<void> {
    const { windows } = await this.#toKeyless().allowance();
    const full = windows.find(({ remaining }) => remaining === 0);
    if (!full) return;
    this.options.observer.refused(undefined, 'address');
    throw addressLimited(secondsUntil(full.resetAt, monotonicNow()));
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
