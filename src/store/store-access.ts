import { explainMistake, parseBearer } from '../access/api-key.js';
import {
  KeylessSession,
  type Access,
  type AdmissionObserver,
  type Allowance,
  type Session,
} from '../access/session.js';
import type { Admission, Ledger, WindowState } from '../access/ledger.js';
import { chain, type MaybePromise } from '../access/maybe-promise.js';
import { keyMissing, keyRefused, toRefusal } from '../access/refusals.js';
import type { StoreError } from '../errors.js';
import type { Span } from '../observability/tracing.js';
import type { Authenticator } from './authenticator.js';
import type { Caller } from './postgres-key-store.js';

/**
 * Creates the access to a store: it looks up keys and counts their requests.
 * @param addressLedger - counts the 401 responses of client addresses
 */
export function createStoreAccess(
  authenticator: Authenticator,
  ledger: Ledger,
  addressLedger: Ledger,
  observer: AdmissionObserver,
): Access {
  return {
    open(authorization, address, span) {
      const key = parseBearer(authorization);
      if (key === undefined) return refuse(address, () => keyMissing(authorization), span, false);
      return chain(authenticator.authenticate(key), (caller) =>
        caller
          ? new CallerSession(caller, ledger, observer, span)
          : refuse(address, () => keyRefused(explainMistake(key)), span, true),
      );
    },
  };

  function refuse(address: string, explain: () => StoreError, span: Span, isKeyRefused: boolean): Session {
    return new KeylessSession(addressLedger, address, explain, observer, span, isKeyRefused);
  }
}

class CallerSession implements Session {
  readonly keyId: string;
  readonly isKeyRefused = false;
  readonly isKeyAccepted = true;
  #windows: readonly WindowState[] | undefined;

  constructor(
    private readonly caller: Caller,
    private readonly ledger: Ledger,
    private readonly observer: AdmissionObserver,
    private readonly span: Span,
  ) {
    this.keyId = caller.id;
  }

  requireKey(): void {
    const ban = this.ledger.findBan(this.caller);
    if (ban) this.#settle(ban, 0);
  }

  admit(cost: number): MaybePromise<void> {
    return chain(this.ledger.admit(this.caller, cost, this.span), (admission) => this.#settle(admission, cost));
  }

  allowance(): MaybePromise<Allowance> {
    const { plan } = this.caller;
    if (this.#windows) return { plan, windows: this.#windows };
    return chain(this.ledger.admit(this.caller, 0, this.span), ({ windows }) => ({ plan, windows }));
  }

  close(): void {
    // Admitted requests stay charged.
  }

  #settle(admission: Admission, cost: number): void {
    const { caller, observer } = this;
    this.#windows = admission.windows;
    const refusal = toRefusal(admission, cost);
    if (!refusal) {
      if (cost > 0) observer.admitted(caller.plan, cost);
      return;
    }
    observer.refused(caller.plan, refusal.code);
    throw refusal;
  }
}
