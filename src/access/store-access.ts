import { StoreError } from '../errors.js';
import type { Authenticator, Caller, MaybePromise } from './authenticator.js';
import { parseBearer } from './bearer.js';
import type { Account, Admission, Ledger, WindowState } from './ledger.js';
import type { Access, Allowance, Visit } from './visit.js';

export interface StoreAccessOptions {
  readonly authenticator: Authenticator;
  /** Counts the requests of keys. */
  readonly ledger: Ledger;
  /** Counts the 401 answers of client addresses. */
  readonly addressLedger: Ledger;
}

const ADDRESS_WINDOWS = [{ name: 'minute', seconds: 60, limit: 60 }] as const;

/** Access to a store: keys are looked up here, and their plans are counted here. */
export function createStoreAccess(options: StoreAccessOptions): Access {
  return {
    open(authorization, address) {
      const bearer = parseBearer(authorization);
      if (bearer.kind === 'none') return new StoreVisit(undefined, false, address, options);
      const caller = options.authenticator.authenticate(bearer.key);
      return caller instanceof Promise ? caller.then(begin) : begin(caller);

      function begin(found: Caller | undefined): Visit {
        return new StoreVisit(found, found === undefined, address, options);
      }
    },
  };
}

class StoreVisit implements Visit {
  readonly caller: Caller | undefined;
  readonly isKeyRefused: boolean;
  readonly #address: string;
  #windows: readonly WindowState[] | undefined;
  #refusal: Promise<never> | undefined;

  constructor(
    caller: Caller | undefined,
    isKeyRefused: boolean,
    address: string,
    private readonly ledgers: Pick<StoreAccessOptions, 'ledger' | 'addressLedger'>,
  ) {
    this.caller = caller;
    this.isKeyRefused = isKeyRefused;
    this.#address = address;
  }

  requireCaller(): MaybePromise<Caller> {
    // The operations of a batch share one answer, which counts once.
    if (!this.caller) return (this.#refusal ??= this.#refuse());
    const { caller } = this;
    const unbanned = this.admit(0);
    return unbanned instanceof Promise ? unbanned.then(() => caller) : caller;
  }

  admit(cost: number): MaybePromise<void> {
    const admission = this.ledgers.ledger.admit(this.#account(), cost);
    return admission instanceof Promise
      ? admission.then((settled) => this.#settle(settled, cost))
      : this.#settle(admission, cost);
  }

  allowance(): MaybePromise<Allowance> {
    if (this.#windows) return { plan: this.caller?.plan, windows: this.#windows };
    const peek = this.caller
      ? this.ledgers.ledger.admit(this.#account(), 0)
      : this.ledgers.addressLedger.admit(this.#account(), 0);
    return peek instanceof Promise
      ? peek.then(({ windows }) => ({ plan: this.caller?.plan, windows }))
      : { plan: this.caller?.plan, windows: peek.windows };
  }

  #account(): Account {
    return this.caller
      ? { id: this.caller.keyId, windows: this.caller.windows }
      : { id: this.#address, windows: ADDRESS_WINDOWS };
  }

  #settle(admission: Admission, cost: number): void {
    this.#windows = admission.windows;
    switch (admission.outcome) {
      case 'admitted':
        return;
      case 'refused':
        throw new StoreError('rate_limited', `The rate limit is exceeded: retry in ${admission.retryAfter} s.`, {
          retryAfter: admission.retryAfter,
          cost,
        });
      case 'banned':
        throw new StoreError('key_banned', `The key is banned for a while: retry in ${admission.retryAfter} s.`, {
          retryAfter: admission.retryAfter,
        });
      case 'too-large':
        throw new StoreError(
          'operation_too_large',
          `The operation costs ${cost} requests, more than the ${admission.limit} that a window of the plan holds: split it.`,
          { cost },
        );
      default:
        admission satisfies never;
    }
  }

  async #refuse(): Promise<never> {
    const admission = await this.ledgers.addressLedger.admit(this.#account(), 1);
    this.#windows = admission.windows;
    if (admission.outcome === 'refused') {
      throw new StoreError('rate_limited', 'Too many requests without a valid key came from this address.', {
        retryAfter: admission.retryAfter,
      });
    }
    throw this.isKeyRefused
      ? new StoreError('unauthorized', 'The API key is unknown, revoked or expired.', {
          headers: { 'WWW-Authenticate': 'Bearer realm="animal-store", error="invalid_token"' },
        })
      : new StoreError('unauthorized', 'An API key is required: send it as "Authorization: Bearer <API_KEY>".', {
          headers: { 'WWW-Authenticate': 'Bearer realm="animal-store"' },
        });
  }
}
