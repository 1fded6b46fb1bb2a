import { WITHHELD_NAME } from '../access/client-name.js';
import type { Plan } from '../access/plans.js';

/** One use of something deprecated: an operation or a request that was admitted. */
export interface DeprecatedCall {
  readonly keyId: string;
  /** What the client calls itself, cleaned by `parseClientName`. */
  readonly client: string | undefined;
  readonly through: 'graphql' | 'rest';
  /** Such as `Query.pet` or `GET /v1/pets/{petId}`. */
  readonly coordinate: string;
}

/** Takes note of calls. It costs no more than a look into a table, and never fails. */
export interface DeprecatedCallCounter {
  count(call: DeprecatedCall): void;
}

/** A client that called something deprecated, and the key that it did so with. */
export interface DeprecatedCaller {
  readonly keyId: string;
  /** Null, as `plan` is, when there is no such key any more. */
  readonly label: string | null;
  readonly plan: Plan | null;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
  /** Null when it gave no name. */
  readonly client: string | null;
  readonly through: DeprecatedCall['through'];
  readonly coordinate: string;
  readonly calls: number;
  readonly firstAt: Date;
  readonly lastAt: Date;
}

/** Who calls what is deprecated. */
export interface DeprecatedCallers {
  /**
   * The callers, whoever called last first.
   * @param since - leaves out who has not called since then
   */
  list(since?: Date): Promise<readonly DeprecatedCaller[]>;
}

/** Stands for the clients of a key beyond those that are told apart. */
export const OTHER_CLIENTS = '(other)';

/** What stands in a name's place without being a client's own: there is always room for these. */
export const NO_NAMES: readonly string[] = ['', OTHER_CLIENTS, WITHHELD_NAME];
