import type { GraphQLError, GraphQLFormattedError } from 'graphql';
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
    readonly headers: Readonly<Record<string, string>>,
    readonly errors: readonly GraphQLFormattedError[],
    readonly operation?: PreparedOperation,
    readonly failure?: StoreError,
  ) {}

  /**
   * The refusal for whatever a step threw.
   * @param locations - where the document has the null condition of `@skip` or `@include` that is the reason
   */
  static of(thrown: unknown, operation?: PreparedOperation, locations?: GraphQLError['locations']): Refusal {
    const failure = toStoreError(thrown);
    const { message, ...rest } = formatStoreError(failure);
    const error = { message, ...(locations && { locations }), ...rest };
    return new Refusal(locations ? 422 : failure.status, failure.headers, [error], operation, failure);
  }
}
