import type { GraphQLError, GraphQLFormattedError } from 'graphql';
import { toStoreError, type StoreError } from '../errors.js';
import { formatStoreError } from './errors.js';
import type { PreparedOperation } from './prepared-documents.js';

export interface RefusalParts {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly errors: readonly GraphQLFormattedError[];
  /** The operation, if it got as far as being prepared. */
  readonly operation?: PreparedOperation | undefined;
  /** The reason in the program's own terms, for the log and the metrics. */
  readonly failure?: StoreError;
}

/** An operation that is answered without data. */
export class Refusal {
  constructor(readonly parts: RefusalParts) {}

  /** The refusal for whatever a step threw. */
  static of(thrown: unknown, operation?: PreparedOperation): Refusal {
    const failure = toStoreError(thrown);
    const { status, headers } = failure;
    return new Refusal({ status, headers, errors: [formatStoreError(failure)], operation, failure });
  }

  /** The refusal for a value in the document that a variable makes invalid. */
  static ofPlace(
    failure: StoreError,
    { locations = [] }: Pick<GraphQLError, 'locations'>,
    operation: PreparedOperation,
  ): Refusal {
    const { message, extensions } = formatStoreError(failure);
    return new Refusal({
      status: 422,
      errors: [{ message, locations, extensions: extensions ?? {} }],
      operation,
      failure,
    });
  }
}
