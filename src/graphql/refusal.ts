import type { GraphQLFormattedError } from 'graphql';
import { toStoreError, type StoreError } from '../errors.js';
import { formatStoreError } from './errors.js';
import type { PreparedOperation } from './prepared-documents.js';

/** An operation that is answered without data. */
export class Refusal {
  /**
   * @param operation - the operation, if it got as far as being prepared
   * @param failure - the reason in the program's own terms, for the log and the metrics
   */
  constructor(
    readonly status: number,
    readonly errors: readonly GraphQLFormattedError[],
    readonly operation?: PreparedOperation,
    readonly failure?: StoreError,
  ) {}

  /** The refusal for whatever a step threw. */
  static of(thrown: unknown, operation?: PreparedOperation): Refusal {
    const failure = toStoreError(thrown);
    return new Refusal(failure.status, [formatStoreError(failure)], operation, failure);
  }
}
