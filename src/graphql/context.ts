import type { Visit } from '../access/visit.js';
import type { StoreError } from '../errors.js';
import type { PetLoader } from '../pets/pet-loader.js';
import type { IdempotencyKey } from '../pets/idempotency-key.js';
import type { Call, PetSource } from '../pets/pet-source.js';
import type { ExecutedOperation, PreparedOperation } from './compiled/run.js';
import type { Deprecation } from './deprecations.js';
import type { RateLimitGuard } from './rate-limit-guard.js';
import type { Turn } from './turnstile.js';

/** What the resolvers and plugins of one operation work with. */
export interface OperationContext {
  readonly visit: Visit;
  readonly call: Call;
  readonly source: PetSource;
  /** Shared by all operations of the HTTP request. */
  readonly loader: PetLoader;
  /** The idempotency key for an `addPet` field, by its index among those of the operation; undefined when none was sent. */
  readonly keyOfAddition?: ((position: number) => IdempotencyKey) | undefined;
  readonly guardRateLimit: RateLimitGuard;
  /** This operation's place in the queue for admission. */
  readonly turn: Turn;
  /** What became of the operation, for the response, the log and the metrics. */
  readonly report: OperationReport;
}

export interface OperationReport {
  type: 'query' | 'mutation' | 'subscription' | 'unknown';
  name: string | undefined;
  /** Requests charged. */
  cost: number;
  /** When its answer was there, by `performance.now()`. */
  endedAt: number;
  deprecations: readonly Deprecation[];
  /** The operation, if it was compiled and admitted. */
  prepared?: PreparedOperation | undefined;
  /** Its answer, if it was compiled and run. */
  executed?: ExecutedOperation;
  /** What went wrong, in the program's own terms. */
  readonly failures: StoreError[];
}
