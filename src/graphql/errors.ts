import type { GraphQLFormattedError, SourceLocation } from 'graphql';
import { StoreError, toErrorBody } from '../errors.js';

/** Refuses an operation because of its document or its variables, with one error for each mistake. */
export class RequestErrors extends Error {
  override readonly name = 'RequestErrors';

  /** @param status - of the HTTP response */
  constructor(
    readonly status: number,
    readonly errors: readonly GraphQLFormattedError[],
  ) {
    super(errors[0]?.message);
  }
}

/** Refuses one argument of a field. */
export class InvalidArgument extends StoreError {
  constructor(
    message: string,
    readonly location: SourceLocation | undefined,
  ) {
    super('invalid_request', message);
  }
}

/** The most errors that are reported for one document or its variables. */
export const MAX_ERRORS = 5;
/** The most places in the document that one error names. */
export const MAX_LOCATIONS = 10;
const MAX_MESSAGE = 500;

/** HTTP statuses by the code that Apollo Server gives the errors of a document. */
const DOCUMENT_STATUSES: Readonly<Record<string, number>> = {
  GRAPHQL_PARSE_FAILED: 400,
  GRAPHQL_VALIDATION_FAILED: 422,
};

/**
 * Creates what says what is wrong with a document or its variables.
 * @param hidesSchema - whether a fixed sentence replaces each message that could name a part of the schema that the
 * client did not write
 */
export function createErrorFormatter(hidesSchema: boolean) {
  return {
    /** @param errors - from Apollo Server, with codes */
    document(errors: readonly GraphQLFormattedError[]): RequestErrors {
      const status = DOCUMENT_STATUSES[String(errors[0]?.extensions?.code)];
      // Apollo Server has no other errors for a document. The log has the message of a bug; the client does not see it.
      if (status === undefined) throw new Error(errors[0]?.message);
      return new RequestErrors(status, errors.slice(0, MAX_ERRORS).map(toDocumentError));
    },
    /** @param name - of the variable, if the mistake is in one */
    variable(message: string, locations: readonly SourceLocation[], name?: string): GraphQLFormattedError {
      const shown = hidesSchema && name !== undefined ? `The value of the variable $${name} does not fit.` : message;
      return cut({ message: shown, locations, extensions: { code: 'BAD_USER_INPUT' } });
    },
  };

  function toDocumentError({ message, locations, extensions }: GraphQLFormattedError): GraphQLFormattedError {
    let shown = message;
    if (hidesSchema && extensions?.code === 'GRAPHQL_VALIDATION_FAILED') {
      shown = 'The document does not fit the schema at this place.';
    }
    // The message of Apollo Server explains how to configure the server.
    if (extensions?.validationErrorCode === 'INTROSPECTION_DISABLED') shown = 'Introspection is turned off here.';
    return cut({ message: shown, ...(locations && { locations }), extensions });
  }
}

export type ErrorFormatter = ReturnType<typeof createErrorFormatter>;

function cut({ message, locations, ...rest }: GraphQLFormattedError): GraphQLFormattedError {
  return {
    message: message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE).toWellFormed()}…` : message,
    ...(locations && { locations: locations.slice(0, MAX_LOCATIONS) }),
    ...rest,
  };
}

/** Formats an error without a place in the document. */
export function formatStoreError(error: StoreError): GraphQLFormattedError {
  return {
    message: error.message,
    extensions: {
      code: error.graphqlCode,
      ...(!error.isGraphqlOnly && { error: toErrorBody(error) }),
      ...(error.retryAfter !== undefined && { retryAfter: error.retryAfter }),
      ...(error.cost !== undefined && { cost: error.cost }),
    },
  };
}
