import type { StoreError } from '../errors.js';
import type { Span } from '../observability/tracing.js';
import type { Ledger, WindowState } from './ledger.js';
import type { MaybePromise } from './maybe-promise.js';
import { addressLimited } from './refusals.js';
import type { AdmissionObserver, Allowance, Session } from './session.js';

/** The most client addresses whose 401 responses are counted. */
export const ADDRESS_CAPACITY = 50_000;

/** Only 401 responses count towards an address. */
const ADDRESS_WINDOWS = [{ name: 'minute', seconds: 60, limit: 60 }] as const;

/** The session of a request without a valid key. Its 401 responses are counted by client address. */
export class KeylessSession implements Session {
  readonly keyId = undefined;
  #windows: readonly WindowState[] | undefined;
  #refusal: Promise<never> | undefined;

  /** @param explain - makes the error that says what is wrong with the key */
  constructor(
    private readonly ledger: Ledger,
    private readonly address: string,
    private readonly explain: () => StoreError,
    private readonly observer: AdmissionObserver,
    private readonly span: Span,
    readonly isKeyRefused: boolean,
  ) {}

  /** Refuses this request. Only the first call counts the refusal. */
  requireKey(): Promise<never> {
    return (this.#refusal ??= this.#refuse());
  }

  admit(cost: number): MaybePromise<void> {
    if (cost > 0) return this.requireKey();
  }

  async allowance(): Promise<Allowance> {
    return { plan: undefined, windows: this.#windows ?? (await this.#charge(0)).windows };
  }

  close(): void {
    // Nothing was admitted.
  }

  async #refuse(): Promise<never> {
    const admission = await this.#charge(1);
    this.#windows = admission.windows;
    if (admission.outcome !== 'refused') throw this.explain();
    this.observer.refused(undefined, 'address');
    throw addressLimited(admission.retryAfter);
  }

  #charge(cost: number) {
    return this.ledger.admit({ id: this.address, windows: ADDRESS_WINDOWS }, cost, this.span);
  }
}
