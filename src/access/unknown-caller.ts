import type { StoreError } from '../errors.js';
import type { AdmissionObserver } from './admission-observer.js';
import type { MaybePromise } from './maybe-promise.js';
import type { Ledger, WindowState } from './ledger.js';
import { addressLimited, keyMissing, keyRefused } from './refusals.js';

/** Only answers of 401 count for an address. */
const ADDRESS_WINDOWS = [{ name: 'minute', seconds: 60, limit: 60 }] as const;

/** A request without a valid key: what is left to its client address, and its refusal. */
export class UnknownCaller {
  #windows: readonly WindowState[] | undefined;
  #refusal: Promise<StoreError> | undefined;

  constructor(
    private readonly ledger: Ledger,
    private readonly address: string,
    private readonly sentKey: boolean,
    private readonly observer: AdmissionObserver,
  ) {}

  /** Counts the refusal of this request, once however often it is asked for, and returns it. */
  refuse(): Promise<StoreError> {
    return (this.#refusal ??= this.#count());
  }

  /** What is left to the address. */
  windows(): MaybePromise<readonly WindowState[]> {
    if (this.#windows) return this.#windows;
    const peek = this.ledger.admit(this.#account, 0);
    return peek instanceof Promise ? peek.then(({ windows }) => windows) : peek.windows;
  }

  async #count(): Promise<StoreError> {
    const admission = await this.ledger.admit(this.#account, 1);
    this.#windows = admission.windows;
    if (admission.outcome === 'refused') {
      this.observer.refused(undefined, 'address');
      return addressLimited(admission.retryAfter);
    }
    return this.sentKey ? keyRefused() : keyMissing();
  }

  get #account() {
    return { id: this.address, windows: ADDRESS_WINDOWS };
  }
}
