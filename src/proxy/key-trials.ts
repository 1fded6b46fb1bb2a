import { addressLimited } from '../access/refusals.js';
import { createBoundedCache } from '../bounded-cache.js';
import type { KeyState } from './key-state.js';

/**
 * Waits until a key that the upstream has never accepted may be tried.
 * @returns the function that ends the trial, which counts against the address unless the key was accepted or the
 * upstream failed
 * @throws StoreError `rate_limited` if too many other keys of the address wait
 */
export type StartTrial = (address: string, key: KeyState) => Promise<EndTrial>;

/** @param hasFailed - whether there was no answer because the upstream failed */
export type EndTrial = (hasFailed: boolean) => void;

/** Keys of one address that are tried at the same time, until too many of them are not accepted. */
const AT_ONCE = 16;
/** After this many keys that were not accepted within a minute, the keys of an address are tried one at a time. */
const REFUSALS = 5;
const REFUSAL_MS = 60_000;
/** The time from one such trial to the next, in milliseconds. */
const INTERVAL_MS = 350;
/** The most keys of an address that wait while keys are refused, and at other times. */
const MAX_WAITING = 16;
const MAX_WAITING_UNREFUSED = 1_000;
/** The most addresses that are remembered. */
const ADDRESSES = 50_000;

/**
 * Limits how fast keys that the upstream has never accepted are tried, by client address.
 * @param waitMs - how long a key waits for its trial, in milliseconds
 */
export function createKeyTrials(waitMs: number): StartTrial {
  const addresses = createBoundedCache<AddressTrials>(ADDRESSES);
  return (address, key) => {
    const trials = addresses.get(address) ?? new AddressTrials(waitMs);
    addresses.set(address, trials);
    return trials.start(key);
  };
}

/** The trials of one address. */
class AddressTrials {
  /** When the latest keys were tried that were not accepted, by `performance.now()`. */
  readonly #refusedAt: number[] = [];
  readonly #waiting = new Map<KeyState, (mayStart: boolean) => void>();
  #running = 0;
  #startedAt = -Infinity;

  constructor(private readonly waitMs: number) {}

  async start(key: KeyState): Promise<EndTrial> {
    if (this.#waiting.size === 0 && this.#isFree()) this.#count(key);
    else if (!(await this.#wait(key))) throw addressLimited(1);
    return (hasFailed) => this.#end(key, hasFailed);
  }

  /** Counts a trial, even if its client disconnects before the key is sent: the key then waits behind the others. */
  #count(key: KeyState): void {
    this.#running += 1;
    this.#startedAt = performance.now();
    key.newSince = this.#startedAt;
  }

  /** Whether too many keys of the address have not been accepted lately. */
  #isRefused(): boolean {
    const oldest = this.#refusedAt[0] ?? -Infinity;
    return this.#refusedAt.length === REFUSALS && performance.now() - oldest < REFUSAL_MS;
  }

  /** Whether a trial may start now. */
  #isFree(): boolean {
    if (!this.#isRefused()) return this.#running < AT_ONCE;
    return this.#running === 0 && performance.now() - this.#startedAt >= INTERVAL_MS;
  }

  #wait(key: KeyState): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => settle(false), this.waitMs);
      const settle = (mayStart: boolean): void => {
        clearTimeout(timer);
        this.#waiting.delete(key);
        resolve(mayStart);
      };
      this.#waiting.set(key, settle);
      this.#dropExcess();
      setTimeout(() => this.#startNext(), INTERVAL_MS).unref();
    });
  }

  #end(key: KeyState, hasFailed: boolean): void {
    this.#running -= 1;
    if (!key.isAccepted && !hasFailed && this.#refusedAt.push(performance.now()) > REFUSALS) this.#refusedAt.shift();
    this.#dropExcess();
    this.#startNext();
    setTimeout(() => this.#startNext(), INTERVAL_MS).unref();
  }

  /** Refuses the newest keys if too many wait. */
  #dropExcess(): void {
    const most = this.#isRefused() ? MAX_WAITING : MAX_WAITING_UNREFUSED;
    if (this.#waiting.size > most) for (const [, settle] of this.#byAge().slice(most)) settle(false);
  }

  #startNext(): void {
    while (this.#isFree()) {
      const [oldest] = this.#byAge();
      if (!oldest) return;
      const [key, settle] = oldest;
      this.#count(key);
      settle(true);
    }
  }

  /** What waits, the key that has been new for longest at the front: its client may have tried before. */
  #byAge(): [KeyState, (mayStart: boolean) => void][] {
    return [...this.#waiting].sort(([a], [b]) => a.newSince - b.newSince);
  }
}
