import type { StoreError } from '../errors.js';
import type { WindowState } from './ledger.js';
import { parseStatedWindows, parseWait, type StatedWindow } from './limit-fields.js';
import type { Quarantine } from './quarantine.js';
import { keyBanned, keyRefused, operationTooLarge, rateLimited, secondsUntil } from './refusals.js';
import type { UpstreamAnswerHead } from './upstream-key.js';

/** How long an answer of 401 is taken for granted. */
const REFUSED_KEY_MS = 5_000;
/** Two resets closer than this are the same window: they are stated in whole seconds. */
const SAME_WINDOW_MS = 2_000;

/**
 * What the upstream has let be known of a key's limits: nothing (not yet, or not since it last answered 429), that it
 * states none, or numbers.
 */
type Knowledge = 'nothing' | 'unstated' | 'stated';

/** How the operation that went first has ended. */
type Lead = 'answered' | 'failed';

/** What is known of one key from the answers of another store, and how many of its requests are under way. */
export class LearnedKey {
  #knowledge: Knowledge = 'nothing';
  /** The numbers last seen; they outlive a 429, for headers. */
  #seen: readonly StatedWindow[] = [];
  /** When they were seen, by `performance.now()`. */
  #seenAt = 0;
  #hasAnswered = false;
  #quarantine: Quarantine | undefined;
  #refusedUntil = 0;
  /** Requests admitted whose answers have not come. */
  #underWay = 0;
  #lead: { readonly ended: Promise<Lead>; readonly end: (lead: Lead) => void } | undefined;

  constructor(private readonly now: () => number = Date.now) {}

  /** True while the upstream's 401 is remembered. */
  get isRefused(): boolean {
    return this.#refusedUntil > this.now();
  }

  /** True when the upstream has answered for this key and states no limits. */
  get isUnstated(): boolean {
    return this.#hasAnswered && this.#seen.length === 0;
  }

  /** The lengths and limits of the windows; empty while none are known. */
  get limits(): readonly Pick<WindowState, 'seconds' | 'limit'>[] {
    return this.#seen;
  }

  /** The windows as they stand, requests under way taken off; empty while none are known. */
  get windows(): readonly WindowState[] {
    const now = this.now();
    return this.#seen.map((window) => {
      const isOpen = window.resetAt > now;
      return {
        ...window,
        remaining: Math.max(0, (isOpen ? window.remaining : window.limit) - this.#underWay),
        resetAt: isOpen ? window.resetAt : now + (window.seconds ?? 0) * 1_000,
      };
    });
  }

  /** The quarantine of the key, while there is one. */
  get quarantine(): Quarantine | undefined {
    return this.#quarantine && this.#quarantine.until > this.now() ? this.#quarantine : undefined;
  }

  /** Enters a quarantine that this gateway or another was told; the longer one counts. When it is over, one request goes first. */
  enterQuarantine({ until, code }: Quarantine): void {
    const known = this.quarantine;
    this.#quarantine = {
      until: Math.max(known?.until ?? 0, until),
      code: code === 'key_banned' ? code : (known?.code ?? code),
    };
    this.#knowledge = 'nothing';
  }

  /** Why no request may be sent just now: the upstream refused the key, or said to wait. */
  findRefusal(): StoreError | undefined {
    if (this.isRefused) return keyRefused();
    const { quarantine } = this;
    if (!quarantine) return undefined;
    const retryAfter = secondsUntil(quarantine.until, this.now());
    return quarantine.code === 'key_banned' ? keyBanned(retryAfter) : rateLimited(retryAfter);
  }

  /**
   * Admits `cost` requests against the last numbers seen. While nothing is known, one operation goes first and the others
   * wait for its answer, so that a burst cannot overrun limits that nobody has seen.
   * @param patience - settles when the caller has no time left to wait; it is then let through to fail on its own
   * @returns true for the operation that goes first, which has to call `endLead`
   * @throws StoreError `unauthorized`, `rate_limited`, `key_banned` or `operation_too_large`
   */
  async admit(cost: number, patience: () => Promise<unknown>): Promise<boolean> {
    for (let mayWait = true; ;) {
      const refusal = this.findRefusal();
      if (refusal) throw refusal.code === 'rate_limited' ? rateLimited(refusal.retryAfter ?? 1, cost) : refusal;
      if (this.#knowledge === 'stated') this.#requireRoom(cost);
      const isFirst = this.#knowledge === 'nothing' && !this.#lead;
      if (isFirst) this.#lead = createLead();
      if (isFirst || !mayWait || !this.#lead) {
        this.#underWay += cost;
        return isFirst;
      }
      const lead = await Promise.race([this.#lead.ended, patience().then(giveUp, giveUp)]);
      mayWait = lead === 'answered';
    }
  }

  /** Admits `cost` requests of the operation that goes first itself, or of its batch. */
  admitUnseen(cost: number): void {
    this.#underWay += cost;
  }

  /** Takes back what was admitted and has been answered, or never will be. */
  release(count: number): void {
    this.#underWay -= count;
  }

  /** Lets the others follow the operation that went first. */
  endLead(lead: Lead): void {
    this.#lead?.end(lead);
    this.#lead = undefined;
  }

  /**
   * Takes what an answer says about this key.
   * @param leftAt - when its request left, by `performance.now()`
   */
  learn(answer: UpstreamAnswerHead, leftAt: number): void {
    const now = this.now();
    if (answer.status === 401) {
      // Its limits are those of our address, not of the key.
      this.#refusedUntil = now + REFUSED_KEY_MS;
      return;
    }
    const stated = parseStatedWindows(answer, now);
    if (answer.status < 500) this.#hasAnswered = true;
    if (stated.length > 0) {
      this.#seen = stated.map((window) => this.#merge(window, now, leftAt < this.#seenAt));
      this.#seenAt = performance.now();
    }
    if (answer.status === 429) {
      this.enterQuarantine(toQuarantine(answer, now));
    } else if (stated.length > 0) this.#knowledge = 'stated';
    else if (this.#knowledge === 'nothing' && answer.status < 500) this.#knowledge = 'unstated';
  }

  #requireRoom(cost: number): void {
    const { windows } = this;
    const largest = Math.min(...windows.map(({ limit }) => limit));
    if (cost > largest) throw operationTooLarge(cost, largest);
    const full = windows.filter(({ remaining }) => remaining < cost);
    if (full.length > 0)
      throw rateLimited(Math.max(...full.map(({ resetAt }) => secondsUntil(resetAt, this.now()))), cost);
  }

  /**
   * The last answer counts. But answers may overtake each other: of two whose requests were under way together, the
   * smaller number of one window is the later one. Resets are stated in seconds, rounded up, so the earliest is the closest.
   */
  #merge(stated: StatedWindow, now: number, hasOverlapped: boolean): StatedWindow {
    const known = this.#seen.find(({ name }) => name === stated.name);
    if (!known || known.resetAt <= now || Math.abs(stated.resetAt - known.resetAt) > SAME_WINDOW_MS) return stated;
    const remaining = hasOverlapped ? Math.min(known.remaining, stated.remaining) : stated.remaining;
    const resetAt = Math.min(known.resetAt, stated.resetAt);
    return { name: stated.name, seconds: stated.seconds, limit: stated.limit, remaining, resetAt };
  }
}

function toQuarantine(answer: UpstreamAnswerHead, now: number): Quarantine {
  const until = now + parseWait(answer, now) * 1_000;
  return { until, code: answer.errorCode === 'key_banned' ? 'key_banned' : 'rate_limited' };
}

function createLead(): { readonly ended: Promise<Lead>; readonly end: (lead: Lead) => void } {
  let end: (lead: Lead) => void = () => undefined;
  const ended = new Promise<Lead>((resolve) => {
    end = resolve;
  });
  return { ended, end };
}

function giveUp(): Lead {
  return 'failed';
}
