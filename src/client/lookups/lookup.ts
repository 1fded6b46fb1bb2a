import type { Int64 } from '../../pets/int64.js';
import type { LoadedPet } from './lookup-answer.js';
import { PetError, type Failure } from './pet-error.js';

/** Takes the result of one id. */
export type Settle = (result: LoadedPet | PetError) => void;

/** One id that is asked for, and everybody who waits for it. */
export class Lookup {
  readonly #waiting = new Set<Settle>();
  /** How often it has been asked again for a failure that may pass. */
  repeats = 0;
  /** Why it has not been had so far. */
  failure: Failure | undefined;
  /** Is told when nobody waits any more. */
  onDeserted: () => void = () => undefined;

  constructor(
    readonly id: Int64,
    /** When its wait budget is used up, by `performance.now()`. */
    readonly deadline: number,
  ) {}

  get isWanted(): boolean {
    return this.#waiting.size > 0;
  }

  /** @returns how to leave again */
  join(settle: Settle): () => void {
    // Each wait is one of its own, even of the same function.
    const waiter: Settle = (result) => settle(result);
    this.#waiting.add(waiter);
    return () => {
      if (this.#waiting.delete(waiter) && !this.isWanted) this.onDeserted();
    };
  }

  settle(result: { readonly pet: LoadedPet } | { readonly failure: Failure }): void {
    const settled = 'pet' in result ? result.pet : new PetError(result.failure, this.id);
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const settle of waiting) settle(settled);
  }
}
