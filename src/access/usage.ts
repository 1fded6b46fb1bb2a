import type { Plan } from './plans.js';

/** An operation or a REST request with a valid key. */
export interface Use {
  readonly keyId: string;
  /** The client's name, as `parseClientName` returns it. */
  readonly client: string | undefined;
  /** The name or type of a GraphQL operation, or a REST route such as `GET /v1/pets`. */
  readonly operation: string;
  /** What is deprecated and was used, such as `Query.pet`; empty if nothing. */
  readonly deprecated: string;
  /** In requests, as charged. */
  readonly cost: number;
  readonly outcome: Outcome;
}

/** `refused`: over a limit of the key, or banned. */
export type Outcome = 'ok' | 'error' | 'refused';

export interface UsageCounter {
  count(use: Use): void;
}

export function outcomeOf(isError: boolean, failures: readonly { readonly code: string }[]): Outcome {
  if (!isError) return 'ok';
  return failures.some(({ code }) => code === 'rate_limited' || code === 'key_banned') ? 'refused' : 'error';
}

export interface UsageFilter {
  readonly id?: string | undefined;
  /** A moment of the first day. */
  readonly since: Date;
  readonly limit: number;
}

interface UsedKey {
  readonly keyId: string;
  /** Null if the key has no label or no longer exists. */
  readonly label: string | null;
  /** Null if the key no longer exists. */
  readonly plan: Plan | null;
  readonly lastAt: Date;
}

/** What a client of a key requested, by operation. */
export interface Usage extends UsedKey {
  /** Empty if the client sent no name. */
  readonly client: string;
  readonly operation: string;
  readonly requests: number;
  readonly cost: number;
  readonly errors: number;
  /** How many of the errors were refusals. */
  readonly refused: number;
}

/** A client that called something deprecated, and its key. */
export interface DeprecatedCaller extends UsedKey {
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
  /** Null if the client sent no name. */
  readonly client: string | null;
  readonly through: 'graphql' | 'rest';
  readonly coordinate: string;
  readonly calls: number;
}

/** Stands for the further names of a key that uses too many. */
export const OTHER = '(other)';
