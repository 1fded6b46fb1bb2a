import type { StoreError } from '../errors.js';
import type { Ledger, WindowState } from './ledger.js';
import type { MaybePromise } from './maybe-promise.js';
import type { Plan } from './plans.js';
import { addressLimited } from './refusals.js';

export interface Allowance {
  /** Undefined for a client address, and if the upstream's numbers match no single plan. */
  readonly plan: Plan | undefined;
  readonly windows: readonly WindowState[];
}

/** Counts admissions and refusals of operations and REST requests. */
export interface AdmissionObserver {
  admitted(plan: Plan | undefined, cost: number): void;
  /** @param reason - the code of the error. `address`: the client's address has received too many 401 responses. */
  refused(plan: Plan | undefined, reason: string): void;
}

/** The caller of one HTTP request, and what that caller has left. */
export interface Session {
  /** Identifies the key that was sent. Undefined if that key is known to be invalid. Never the key itself. */
  readonly keyId: string | undefined;
  /** True if the request has a bearer key that is not valid. */
  readonly isKeyRefused: boolean;
  /** True if the key is valid: in proxy mode, if the upstream has accepted it before. */
  readonly isKeyAccepted?: boolean;
  /** The key to send upstream, in proxy mode. */
  readonly upstreamKey?: UpstreamKey | undefined;
  /**
   * @throws StoreError `unauthorized` without a valid key, `rate_limited` if the client's address has received too many
   * 401 responses, `key_banned` if the key is banned
   */
  requireKey(): MaybePromise<void>;
  /**
   * Admits `cost` requests of the key: all of them or none.
   * @throws StoreError `rate_limited`, `key_banned` or `operation_too_large`
   */
  admit(cost: number): MaybePromise<void>;
  /** Returns the error of a request. If nothing was admitted, that is the key's ban, if another instance knows of one. */
  explain(error: StoreError): MaybePromise<StoreError>;
  /** Returns the caller's windows. Undefined while the limits are unknown. */
  allowance(): MaybePromise<Allowance | undefined>;
  /** Ends the session. In proxy mode, admitted requests that were never sent become available again. */
  close(): void;
}

export interface Access {
  /**
   * @param authorization - the header
   * @param address - what the client is counted by
   * @throws StoreError `unavailable` if the key cannot be looked up
   */
  open(authorization: string | undefined, address: string): MaybePromise<Session>;
}

/** What an upstream's response says of the limits of a key. */
export interface UpstreamAnswerHead {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
}

/** A caller's key, with which the proxy source sends requests upstream. */
export interface UpstreamKey {
  /** Never the key itself. */
  readonly id: string;
  /** The `Authorization` header, which goes to the upstream unchanged, and nowhere else. */
  readonly authorization: string;
  /** True until the upstream has answered for the key: its requests then go one at a time. */
  readonly isUnknown: boolean;
  /** Called before a request is sent for the first time. Returns why it may not be sent. */
  start(): StoreError | undefined;
  /** Called when a request has ended, whether it was started or shared with another, after `learn`. */
  finish(): void;
  /** Returns why this key may send no request now. */
  findRefusal(): StoreError | undefined;
  /**
   * Called for every response as soon as it arrives.
   * @param sentAt - by `performance.now()`
   * @param refusal - the error for the client, if the upstream refused the key or its rate
   */
  learn(answer: UpstreamAnswerHead, sentAt: number, refusal?: StoreError): void;
}

/** The most client addresses whose 401 responses are counted. */
export const ADDRESS_CAPACITY = 50_000;

const ADDRESS_WINDOWS = [{ name: 'minute', seconds: 60, limit: 60 }] as const;

/** The session of a request without a valid key. It counts 401 responses by client address. */
export class KeylessSession implements Session {
  readonly keyId = undefined;
  #windows: readonly WindowState[] | undefined;
  #refusal: Promise<never> | undefined;

  /** @param toError - makes the error that says what is wrong with the key */
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

  close(): void {
    // Nothing to give back.
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
