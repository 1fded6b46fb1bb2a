import { setTimeout as sleep } from 'node:timers/promises';
import { keyBanned, operationTooLarge, rateLimited, secondsUntil } from '../access/refusals.js';
import type { ProbeEnd, UpstreamAnswerHead } from '../access/session.js';
import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { StoreError } from '../errors.js';
import { LimitState, LONG_MS } from './limit-state.js';

/** A period in which the gateway sends nothing with a key, because the upstream answered 429. */
export interface Cooldown {
  /** By `monotonicNow`. Unless the key is banned, one operation a minute is tried, because limits may be raised. */
  readonly until: number;
  /** When the upstream will serve the key again, as far as is known: what clients are told. By `monotonicNow`. */
  readonly retryAt: number;
  readonly code: 'rate_limited' | 'key_banned';
}

/** How long a key counts as refused after a 401 of the upstream. */
const REFUSED_KEY_MS = 5_000;

export type KeyStates = ReturnType<typeof createKeyStates>;

/**
 * Creates the states of all keys. Accepted keys, those with a cooldown and all others are kept apart, so that made-up
 * keys evict neither. When there are too many of a kind, the least recently used one is removed first.
 * @param capacity - the most keys that the upstream has accepted
 * @param otherCapacity - the most keys of each other kind
 */
export function createKeyStates(capacity = 100_000, otherCapacity = 10_000) {
  const accepted = createBoundedCache<KeyState>(capacity);
  const limited = createBoundedCache<KeyState>(otherCapacity);
  const others = createBoundedCache<KeyState>(otherCapacity);
  return {
    get(keyId: string): KeyState {
      let state = accepted.get(keyId) ?? limited.get(keyId) ?? others.get(keyId);
      if (!state) {
        state = new KeyState();
        others.set(keyId, state);
      }
      return state;
    },
    /** Keeps the state of a key that the upstream has accepted, or that has a cooldown. */
    keep(keyId: string, state: KeyState): void {
      if (accepted.has(keyId) || (!state.isAccepted && !state.cooldown)) return;
      others.delete(keyId);
      limited.delete(keyId);
      (state.isAccepted ? accepted : limited).set(keyId, state);
    },
  };
}

/** The request that goes first, while nothing is known of the limits of its key. */
class Probe {
  /** Whether one of the owner's requests is on its way. Its others wait, like those of other sessions. */
  isSent = false;
  end!: (ended: ProbeEnd) => void;
  readonly ended = new Promise<ProbeEnd>((resolve) => (this.end = resolve));

  /** @param owner - the session whose operation was admitted first, or that sends a request first */
  constructor(readonly owner: unknown) {}
}

/** What the gateway knows about one key. UpstreamKey describes what concerns the probe. */
export class KeyState {
  /** When the key was first seen or last tried, by `performance.now()`. */
  newSince = performance.now();
  /** Whether the upstream has accepted the key: other refusals than 401 say nothing about it. */
  isAccepted = false;
  readonly limits = new LimitState();
  #cooldown: Cooldown | undefined;
  #refusal: { readonly error: StoreError; readonly until: number } | undefined;
  #probe: Probe | undefined;

  /** The upstream's 401, for a while. */
  get refusal(): StoreError | undefined {
    return this.#refusal && this.#refusal.until > monotonicNow() ? this.#refusal.error : undefined;
  }

  get cooldown(): Cooldown | undefined {
    return this.#cooldown && this.#cooldown.until > monotonicNow() ? this.#cooldown : undefined;
  }

  /**
   * Why nothing may be sent now: the upstream refused the key, or the key is in a cooldown.
   * @param cost - of an operation that is not admitted yet
   */
  findRefusal(cost?: number): StoreError | undefined {
    const { refusal, cooldown } = this;
    if (refusal || !cooldown) return refusal;
    const retryAfter = secondsUntil(cooldown.retryAt, monotonicNow());
    if (cooldown.code === 'key_banned') return keyBanned(retryAfter);
    // Waiting would not help.
    if (cost !== undefined && cost > this.limits.largestCost) return operationTooLarge(cost, this.limits.largestCost);
    return rateLimited(retryAfter, cost);
  }

  /**
   * Admits `cost` requests against the last numbers of the upstream. While there are none, one operation is the probe
   * and the others wait for its answer, so that a burst does not exceed limits that are still unknown.
   * @param until - how long to wait for a probe, by `performance.now()`; the operation is then admitted without limits
   * @returns true for the probe
   * @throws StoreError `unauthorized`, `rate_limited`, `key_banned` or `operation_too_large`
   */
  async admit(cost: number, until: number, owner: unknown): Promise<boolean> {
    let isProbe = false;
    for (let mayWait = true; ;) {
      const refusal = this.findRefusal(cost) ?? this.limits.findRefusal(cost);
      if (refusal) throw refusal;
      isProbe = this.limits.isUnknown && !this.#probe;
      if (isProbe) this.#probe = new Probe(owner);
      const left = until - performance.now();
      if (isProbe || !mayWait || !this.#probe || left <= 0) break;
      const end = await Promise.race([this.#probe.ended, sleep(left, undefined, { ref: false })]);
      mayWait = end !== undefined && !end.hasFailed;
    }
    this.limits.inFlight += cost;
    return isProbe;
  }

  findProbe(owner: unknown): Promise<ProbeEnd> | undefined {
    const probe = this.#probe;
    return probe && this.limits.isUnknown && (probe.isSent || probe.owner !== owner) ? probe.ended : undefined;
  }

  sendProbe(owner: unknown): () => void {
    const probe = (this.#probe ??= new Probe(owner));
    probe.isSent = true;
    return () => this.#endProbe(probe, { hasFailed: true });
  }

  /** Ends the probe, if it is that of the session. */
  endProbe(owner: unknown, end: ProbeEnd): void {
    const probe = this.#probe;
    if (probe && probe.owner === owner) this.#endProbe(probe, end);
  }

  #endProbe(probe: Probe, end: ProbeEnd): void {
    if (this.#probe === probe) this.#probe = undefined;
    probe.end(end);
  }

  /**
   * Updates the state from an answer.
   * @param sentAt - when its request was sent, by `performance.now()`
   * @param refusal - the error for the client, if the upstream refused the key or its rate
   */
  learn(answer: UpstreamAnswerHead, sentAt: number, refusal?: StoreError): void {
    const now = monotonicNow();
    const { status } = answer;
    if (refusal?.code === 'unauthorized') {
      // The headers of a 401 state the limits of the gateway's address, not of the key.
      this.#refusal = { error: refusal, until: now + REFUSED_KEY_MS };
      this.isAccepted = false;
      this.limits.forget();
      return;
    }
    this.limits.learn(answer, sentAt, now);
    if (status < 300 || status === 304 || status === 404) this.isAccepted = true;
    // Until the upstream has accepted the key, one request goes first each time.
    if (!this.isAccepted) this.limits.forget();
    if (!refusal) return;
    const code = refusal.code === 'key_banned' ? 'key_banned' : 'rate_limited';
    const retryAt = now + (refusal.retryAfter ?? 0) * 1_000;
    // A request with a banned key could prolong the ban.
    this.coolDown({ until: code === 'key_banned' ? retryAt : Math.min(retryAt, now + LONG_MS), retryAt, code });
  }

  /** Starts a cooldown, or extends the one in progress. After it, one operation is the probe again. */
  coolDown({ until, retryAt, code }: Cooldown): void {
    const known = this.cooldown;
    this.#cooldown = {
      until: Math.max(known?.until ?? 0, until),
      retryAt: Math.max(known?.retryAt ?? 0, retryAt),
      code: code === 'key_banned' ? code : (known?.code ?? code),
    };
    this.limits.forget();
  }
}
