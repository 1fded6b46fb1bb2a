import type { StoreError } from '../errors.js';
import type { Ledger, WindowState } from './ledger.js';
import type { MaybePromise } from './maybe-promise.js';
import type { Plan } from './plans.js';
import { addressLimited } from './refusals.js';

export interface Allowance {
  /** Undefined for a client address, and in proxy mode unless `DEFAULT_PLAN` applies. */
  readonly plan: Plan | undefined;
  readonly windows: readonly WindowState[];
}

export interface AdmissionObserver {
  admitted(plan: Plan | undefined, cost: number): void;
  /** @param reason - the code of the error, or `address` after too many 401 responses */
  refused(plan: Plan | undefined, reason: string): void;
}

/** The caller of one HTTP request, and what that caller has left. */
export interface Session {
  /** Undefined if the key is missing or known to be invalid. Never the key itself. */
  readonly keyId: string | undefined;
  /** Whether a bearer key was sent that is not valid. */
  readonly isKeyRefused: boolean;
  /** Whether the key is valid, or the upstream has accepted it before. */
  readonly isKeyAccepted?: boolean;
  /** Whether the key may not add animals. Absent in proxy mode, because the upstream decides. */
  readonly readOnly?: boolean;
  readonly upstreamKey?: UpstreamKey;
  /** @throws StoreError `unauthorized`, `key_banned`, or `rate_limited` after too many 401 responses to the address */
  requireKey(): MaybePromise<void>;
  /**
   * Admits `cost` requests: all of them or none.
   * @throws StoreError `rate_limited`, `key_banned` or `operation_too_large`
   */
  admit(cost: number): MaybePromise<void>;
  /**
   * Returns the error of a request: another one if the key is banned and only another instance knows of it, or if an
   * upstream's 401 was one too many for the client's address.
   */
  explain(error: StoreError): MaybePromise<StoreError>;
  /** Undefined while the limits are unknown. */
  allowance(): MaybePromise<Allowance | undefined>;
  /** In proxy mode, admitted requests that were never sent become available again. */
  close?(): void;
}

/** @throws StoreError `field_rate_limited` beyond 60 uses a minute of what is free by one key */
export type RateLimitGuard = (session: Session) => Promise<void>;

export interface Access {
  /** @throws StoreError `unavailable` if the key cannot be looked up */
  open(authorization: string | undefined, address: string): MaybePromise<Session>;
}

export interface UpstreamAnswerHead {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
}

/** A key with which the proxy sends requests upstream. */
export interface UpstreamKey {
  /** Never the key itself. */
  readonly id: string;
  /** The header, which goes to the upstream unchanged, and nowhere else. */
  readonly authorization: string;
  /** Until the upstream has answered for the key, its requests go one at a time. */
  readonly isUnknown: boolean;
  /** Called before a request is first sent. Returns why it may not. */
  start(): StoreError | undefined;
  /** Called after `learn`, when a request has ended, even if it was shared. */
  finish(): void;
  /** Returns why this key may send no request now. */
  findRefusal(): StoreError | undefined;
  /** Whether nothing is left for the repetition of a request that has not ended. */
  readonly isExhausted: boolean;
  /**
   * Called for every response as soon as it arrives.
   * @param sentAt - by `monotonicNow`
   * @param error - for the client, if there is one
   */
  learn(answer: UpstreamAnswerHead, sentAt: number, error?: StoreError): void;
}

export const ADDRESS_CAPACITY = 50_000;

const ADDRESS_WINDOWS = [{ name: 'minute', seconds: 60, limit: 60 }] as const;

/** Without a valid key. It counts 401 responses by client address. */
export class KeylessSession implements Session {
  readonly keyId = undefined;
  #windows: readonly WindowState[] | undefined;
  #refusal: Promise<never> | undefined;

  constructor(
    private readonly ledger: Ledger,
    private readonly address: string,
    private readonly toError: () => StoreError,
    private readonly observer: AdmissionObserver,
    readonly isKeyRefused: boolean,
  ) {}

  /** Only the first call counts the refusal. */
  requireKey(): Promise<never> {
    return (this.#refusal ??= this.#refuse());
  }

  admit(cost: number): MaybePromise<void> {
    if (cost > 0) return this.requireKey();
  }

  explain(error: StoreError): StoreError {
    return error;
  }

  async allowance(): Promise<Allowance> {
    return { plan: undefined, windows: this.#windows ?? (await this.#charge(0)).windows };
  }

  async #refuse(): Promise<never> {
    const admission = await this.#charge(1);
    this.#windows = admission.windows;
    if (admission.outcome !== 'refused') throw this.toError();
    this.observer.refused(undefined, 'address');
    throw addressLimited(admission.retryAfter);
  }

  #charge(cost: number) {
    return this.ledger.admit({ id: this.address, windows: ADDRESS_WINDOWS }, cost);
  }
}
