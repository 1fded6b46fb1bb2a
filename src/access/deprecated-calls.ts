import { WITHHELD_NAME } from '../access/client-name.js';
import type { Plan } from '../access/plans.js';

/** An admitted operation or request that uses something deprecated. */
export interface DeprecatedCall {
  readonly keyId: string;
  /** The client's name, as `parseClientName` returns it. */
  readonly client: string | undefined;
  readonly through: 'graphql' | 'rest';
  /** For example `Query.pet` or `GET /v1/pets/{petId}`. */
  readonly coordinate: string;
}

/** Counts deprecated calls. Counting is one lookup in a table and never fails. */
export interface DeprecatedCallCounter {
  count(call: DeprecatedCall): void;
}

/** A client that called something deprecated, and its key. */
export interface DeprecatedCaller {
  readonly keyId: string;
  /** Null if the key has no label or no longer exists. */
  readonly label: string | null;
  /** Null if the key no longer exists. */
  readonly plan: Plan | null;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
  /** Null if the client sent no name. */
  readonly client: string | null;
  readonly through: DeprecatedCall['through'];
  readonly coordinate: string;
  readonly calls: number;
  readonly firstAt: Date;
  readonly lastAt: Date;
}

/** Lists the callers of deprecated fields and endpoints. */
export interface DeprecatedCallers {
  /**
   * Lists the callers, most recent call first.
   * @param since - omits callers whose last call is earlier
   */
  list(since?: Date): Promise<readonly DeprecatedCaller[]>;
}

/** The name for further clients of a key that has too many client names. */
export const OTHER_CLIENTS = '(other)';

/** Values of `client` that are not the client's own name. No limit on client names applies to them. */
export const NO_NAMES: readonly string[] = ['', OTHER_CLIENTS, WITHHELD_NAME];
