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

class AddressTrials {
  /** When the latest keys were tried that were not accepted, by `performance.now()`. */
  readonly #refusedAt: number[] = [];
  /** The keys that wait for their trials, each with the function that ends its wait. */
  readonly #waiting = new Map<KeyState, (mayStart: boolean) => void>();
  #running = 0;
  #startedAt = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly waitMs: number) {}

  async start(key: KeyState): Promise<EndTrial> {
    const mayStart = await new Promise<boolean>((resolve) => {
      this.#waiting.set(key, resolve);
      this.#next();
      if (this.#waiting.has(key)) setTimeout(() => this.#settle(key, resolve, false), this.waitMs).unref();
    });
    if (!mayStart) throw addressLimited(1);
    return (hasFailed) => {
      this.#running -= 1;
      if (!key.isAccepted && !hasFailed && this.#refusedAt.push(performance.now()) > REFUSALS) this.#refusedAt.shift();
      this.#next();
    };
  }

  /** Whether too many keys of the address have not been accepted lately. */
  get #isRefused(): boolean {
    const oldest = this.#refusedAt[0] ?? -Infinity;
    return this.#refusedAt.length === REFUSALS && performance.now() - oldest < REFUSAL_MS;
  }

  get #isFree(): boolean {
    if (!this.#isRefused) return this.#running < AT_ONCE;
    return this.#running === 0 && performance.now() - this.#startedAt >= INTERVAL_MS;
  }

  /** Starts the trials that may start now, and refuses the newest keys if too many wait. */
  #next(): void {
    // The key that has been new for longest goes first: its client may have tried before.
    const waiting = [...this.#waiting].sort(([a], [b]) => a.newSince - b.newSince);
    while (waiting.length > 0 && this.#isFree) {
      const [key, resolve] = waiting.shift() as (typeof waiting)[0];
      // The trial counts even if its client disconnects before the key is sent: the key then waits behind the others.
      this.#running += 1;
      this.#startedAt = key.newSince = performance.now();
      this.#settle(key, resolve, true);
    }
    const most = this.#isRefused ? MAX_WAITING : MAX_WAITING_UNREFUSED;
    for (const [key, resolve] of waiting.slice(most)) this.#settle(key, resolve, false);
    if (this.#waiting.size === 0) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#next();
    }, INTERVAL_MS).unref();
  }

  #settle(key: KeyState, resolve: (mayStart: boolean) => void, mayStart: boolean): void {
    if (this.#waiting.get(key) === resolve) this.#waiting.delete(key);
    resolve(mayStart);
  }
}
