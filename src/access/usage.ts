import type { Plan } from './plans.js';

export interface Use {
  readonly keyId: string;
  readonly client: string | undefined;
  /** The name or type of a GraphQL operation, or `GET /v1/pets`. */
  readonly operation: string;
  /** What was used although it is deprecated, such as `Query.pet`, or empty. */
  readonly deprecated: string;
  readonly cost: number;
  readonly outcome: Outcome;
}

/** `refused`: over a limit of the key, or banned. */
export type Outcome = 'ok' | 'error' | 'refused';

export interface UsageCounter {
  count(use: Use): void;
}

export function outcomeOf(isError: boolean, failures: readonly { readonly status: number }[]): Outcome {
  if (!isError) return 'ok';
  return failures.some(({ status }) => status === 429) ? 'refused' : 'error';
}

export interface UsageFilter {
  readonly id?: string;
  /** A moment of the first day. */
  readonly since: Date;
  readonly deprecated?: boolean;
  readonly limit: number;
}

export interface Counts {
  readonly requests: number;
  readonly cost: number;
  readonly errors: number;
  /** Part of the errors. */
  readonly refused: number;
}

/** What a key was used for. */
export interface KeyUsage extends Counts {
  readonly keyId: string;
  readonly label: string | null;
  /** Null if the key was deleted. */
  readonly plan: Plan | null;
  readonly lastAt: Date;
}

export interface Usage extends KeyUsage, Pick<Use, 'operation' | 'deprecated'> {
  /** Empty if it sent no name. */
  readonly client: string;
}

/** Stands for further names of a key with too many. */
export const OTHER = '(other)';
