import type { StoreError } from '../errors.js';
import type { Span } from '../observability/tracing.js';
import type { AdmissionObserver } from './admission-observer.js';
import { chain, type MaybePromise } from './maybe-promise.js';
import type { Ledger, WindowState } from './ledger.js';
import { addressLimited } from './refusals.js';

/** Only 401 responses count towards an address. */
const ADDRESS_WINDOWS = [{ name: 'minute', seconds: 60, limit: 60 }] as const;

/** The sender of a request without a valid key. Its 401 responses are counted by client address. */
export class UnknownCaller {
  #windows: readonly WindowState[] | undefined;
  #refusal: Promise<StoreError> | undefined;

  /** @param explain - makes the error that says what is wrong with the key */
  constructor(
    private readonly ledger: Ledger,
    private readonly address: string,
    private readonly explain: () => StoreError,
    private readonly observer: AdmissionObserver,
    private readonly span: Span,
  ) {}

  /** Returns the error that refuses this request. Only the first call counts the refusal. */
  refuse(): Promise<StoreError> {
    return (this.#refusal ??= this.#count());
  }

  /** Returns the windows of the address. */
  windows(): MaybePromise<readonly WindowState[]> {
    if (this.#windows) return this.#windows;
    return chain(this.ledger.admit(this.#account, 0, this.span), ({ windows }) => windows);
  }

  async #count(): Promise<StoreError> {
    const admission = await this.ledger.admit(this.#account, 1, this.span);
    this.#windows = admission.windows;
    if (admission.outcome === 'refused') {
      this.observer.refused(undefined, 'address');
      return addressLimited(admission.retryAfter);
    }
    return this.explain();
  }

  get #account() {
    return { id: this.address, windows: ADDRESS_WINDOWS };
  }
}
