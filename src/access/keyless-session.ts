import type { MaybePromise } from './maybe-promise.js';
import type { UnknownCaller } from './unknown-caller.js';
import type { Allowance, Session } from './session.js';

/** The session of a request without a valid key. */
export class KeylessSession implements Session {
  readonly keyId = undefined;

  constructor(
    private readonly caller: UnknownCaller,
    readonly isKeyRefused: boolean,
  ) {}

  async requireKey(): Promise<void> {
    throw await this.caller.refuse();
  }

  admit(cost: number): MaybePromise<void> {
    if (cost > 0) return this.requireKey();
  }

  async allowance(): Promise<Allowance> {
    return { plan: undefined, windows: await this.caller.windows() };
  }

  close(): void {
    // Nothing was admitted.
  }
}
