import type { Session } from '../access/session.js';
import type { PetLoader } from '../pets/pet-loader.js';
import type { IdempotencyKey } from '../pets/idempotency-key.js';
import type { Call, PetSource } from '../pets/pet-source.js';
import type { RateLimitGuard } from './rate-limit-guard.js';

/** What the resolvers of one operation work with. */
export interface OperationContext {
  readonly session: Session;
  readonly call: Call;
  readonly source: PetSource;
  /** Shared by all operations of the HTTP request. */
  readonly loader: PetLoader;
  /** The idempotency key of an `addPet` field, by its index among those of the operation; undefined when none was sent. */
  readonly keyOfAddition?: ((position: number) => IdempotencyKey) | undefined;
  readonly guardRateLimit: RateLimitGuard;
}
