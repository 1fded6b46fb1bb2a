import type { Cooldown } from '../access/cooldown.js';
import type { WindowState } from '../access/ledger.js';
import { keyBanned, operationTooLarge, rateLimited, secondsUntil } from '../access/refusals.js';
import type { UpstreamAnswerHead } from '../access/session.js';
import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { StoreError } from '../errors.js';
import { createLimitsParser, type ParseLimits } from './limits.js';

/** After a 401. */
const REFUSED_MS = 5_000;
/** Before the gateway refuses a key for longer than this, it sends one request. */
const LONG_MS = 60_000;
/** Resets closer than this belong to the same window, because the upstream states whole seconds. */
const SAME_WINDOW_MS = 2_000;

const CAPACITY = 100_000;

export type Keys = ReturnType<typeof createKeys>;

/** Creates the function that returns the state of a key. */
export function createKeys() {
  const parseLimits = createLimitsParser();
  const states = createBoundedCache<KeyState>(CAPACITY);
  return (keyId: string): KeyState => {
    let state = states.get(keyId);
    if (!state) states.set(keyId, (state = new KeyState(parseLimits)));
    return state;
  };
}

/** What the upstream's answers say about one key. Times are those of `monotonicNow`. */
export class KeyState {
  isAccepted = false;
  /** Requests that were admitted and have not ended. */
  inFlight = 0;
  #refused: { readonly until: number; readonly error: StoreError } | undefined;
  #cooldown: (Cooldown & { readonly cause?: StoreError }) | undefined;
  /** Then one request goes first. */
  #knownUntil = 0;
  /** The numbers of the last answer that stated any, and when it arrived. */
  #stated: readonly WindowState[] = [];
  #statedAt = 0;

  constructor(private readonly parseLimits: ParseLimits) {}

  get isUnknown(): boolean {
    return this.#knownUntil <= monotonicNow();
  }

  get isStated(): boolean {
    return this.#stated.length > 0;
  }

  get windows(): readonly WindowState[] {
    return this.#renew(this.inFlight);
  }

  /** See `UpstreamKey`. */
  get isExhausted(): boolean {
    const now = monotonicNow();
    return this.#stated.some(({ remaining, resetAt }) => remaining < this.inFlight && resetAt > now);
  }

  get cooldown() {
    return this.#cooldown && this.#cooldown.until > monotonicNow() ? this.#cooldown : undefined;
  }

  /** Why nothing may be sent now. @param cost - of a new operation. Waiting requests get the upstream's own error */
  findRefusal(cost?: number): StoreError | undefined {
    if (this.#refused && this.#refused.until > monotonicNow()) return this.#refused.error;
    const { cooldown } = this;
    if (!cooldown) return undefined;
    if (cost === undefined && cooldown.cause) return cooldown.cause;
    const retryAfter = secondsUntil(cooldown.retryAt, monotonicNow());
    if (cooldown.code === 'key_banned') return keyBanned(retryAfter);
    return this.#findExcess(cost ?? 1) ?? rateLimited(retryAfter, cost);
  }

  /** Why `cost` requests do not fit into the windows. @param waiting - those admitted before, in the same batch */
  findLimit(cost: number, waiting = 0): StoreError | undefined {
    const inFlight = this.inFlight + waiting;
    if (this.isUnknown && waiting === 0) return undefined;
    if (!this.#stated.some(({ remaining }) => remaining - inFlight < cost)) return undefined;
    const full = this.#renew(inFlight).filter(({ remaining }) => remaining < cost);
    if (full.length === 0) return undefined;
    const now = monotonicNow();
    const excess = this.#findExcess(cost);
    const retryAfter = secondsUntil(Math.max(...full.map(({ resetAt }) => resetAt)), now);
    const isOld = now - this.#statedAt >= LONG_MS;
    // The numbers may be outdated, or wrong.
    const isDoubtful =
      this.#stated.some(({ resetAt }) => resetAt <= now) ||
      (retryAfter * 1_000 > LONG_MS && (isOld || (!excess && this.#stated.some(({ remaining }) => remaining === 0))));
    if (!isDoubtful || inFlight > 0) return excess ?? rateLimited(retryAfter, cost, full);
    this.#knownUntil = 0;
    return undefined;
  }

  /**
   * Whether the upstream refuses the key. After too many 401s for one address, it answers 429 to keys that it does not
   * know, with the same challenge.
   */
  isRefusedBy(answer: UpstreamAnswerHead): boolean {
    const { status } = answer;
    return status === 401 || (status === 429 && !this.isAccepted && answer.header('www-authenticate') !== undefined);
  }

  /** See `UpstreamKey.learn`. */
  learn(answer: UpstreamAnswerHead, sentAt: number, error?: StoreError): void {
    const now = monotonicNow();
    const { status } = answer;
    if (error && this.isRefusedBy(answer)) {
      // The headers state the limits of the gateway's address, not of the key.
      this.#refused = { until: now + REFUSED_MS, error };
      this.#knownUntil = 0;
      return;
    }
    // An upstream may answer with a 404 before it looks at the key, and an error page may come from something in between.
    const isSuccess = status < 300 && !error;
    this.isAccepted ||= isSuccess;
    // Those of a response with a challenge are the limits of the gateway's address, as above.
    const stated = answer.header('www-authenticate') === undefined ? this.parseLimits(answer, now) : [];
    const wasInFlight = sentAt < this.#statedAt;
    if (stated.length === 0) {
      this.#stated = isSuccess && !wasInFlight ? [] : this.#renew(0);
    } else {
      // Of two answers whose requests were in flight together, the one of the later window is the newer one, or the one
      // with the smaller number.
      this.#stated = wasInFlight ? stated.map((window) => this.#findNewer(window)) : stated;
      this.#statedAt = now;
    }
    // Nothing is known of a window after its end, unless its length is. Nor does a late answer end a wait.
    if (status < 500 && sentAt >= Math.max(this.#refused?.until ?? 0, this.#cooldown?.until ?? 0))
      this.#knownUntil = Math.min(...this.#stated.map(({ seconds, resetAt }) => (seconds ? Infinity : resetAt)));
    if (!error || status !== 429) return;
    const code = error.code === 'key_banned' ? 'key_banned' : 'rate_limited';
    const retryAt = now + (error.retryAfter ?? 0) * 1_000;
    // A request with a banned key could prolong the ban.
    const until = code === 'key_banned' ? retryAt : Math.min(retryAt, now + LONG_MS);
    this.coolDown({ until, retryAt, code }, error);
  }

  coolDown(cooldown: Cooldown, cause?: StoreError): void {
    if (cooldown.until > (this.cooldown?.until ?? 0)) this.#cooldown = { ...cooldown, cause };
    this.#knownUntil = 0;
  }

  /** Returns the windows of now, minus `inFlight` requests. One that has closed opens anew, if its length is known. */
  #renew(inFlight: number): readonly WindowState[] {
    const now = monotonicNow();
    return this.#stated.flatMap(({ name, seconds, limit, remaining, resetAt }) => {
      if (resetAt > now) return { name, seconds, limit, remaining: Math.max(0, remaining - inFlight), resetAt };
      if (seconds === null) return [];
      return { name, seconds, limit, remaining: Math.max(0, limit - inFlight), resetAt: now + seconds * 1_000 };
    });
  }

  /** Why waiting would not help. */
  #findExcess(cost: number): StoreError | undefined {
    const largest = Math.min(...this.#stated.map(({ limit }) => limit));
    return cost > largest ? operationTooLarge(cost, largest) : undefined;
  }

  #findNewer(stated: WindowState): WindowState {
    const known = this.#stated.find(({ name }) => name === stated.name);
    if (!known || stated.resetAt > known.resetAt + SAME_WINDOW_MS) return stated;
    if (known.resetAt > stated.resetAt + SAME_WINDOW_MS) return known;
    return { ...stated, remaining: Math.min(known.remaining, stated.remaining) };
  }
}
