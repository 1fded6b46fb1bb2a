import type { GraphQLFormattedError, SourceLocation } from 'graphql';
import { ERRORS, StoreError, toErrorBody } from '../errors.js';

/** Refuses an operation because of its document or its variables, with one error for each mistake. */
export class RequestErrors extends Error {
  override readonly name = 'RequestErrors';
  readonly errors: readonly GraphQLFormattedError[];

  /** @param status - of the HTTP response */
  constructor(
    readonly status: number,
    errors: readonly GraphQLFormattedError[],
  ) {
    super(errors[0]?.message);
    this.errors = errors.slice(0, MAX_ERRORS).map(cut);
  }
}

/** Refuses one argument of a field in a way that REST does not have. */
export class InvalidArgument extends StoreError {
  constructor(
    message: string,
    readonly location: SourceLocation | undefined,
  ) {
    super('invalid_request', message, { graphqlOnly: true });
  }
}

/** The most errors that are reported for one operation, and the most places in the document that one names. */
export const MAX_ERRORS = 5;
export const MAX_LOCATIONS = 10;
const MAX_MESSAGE = 500;

function cut({ message, locations, ...rest }: GraphQLFormattedError): GraphQLFormattedError {
  return {
    message: message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE).toWellFormed()}…` : message,
    ...(locations && { locations: locations.slice(0, MAX_LOCATIONS) }),
    ...rest,
  };
}

/** HTTP statuses by the code that Apollo Server gives the errors of a document. */
const DOCUMENT_STATUSES: Readonly<Record<string, number>> = {
  GRAPHQL_PARSE_FAILED: 400,
  GRAPHQL_VALIDATION_FAILED: 422,
};

/**
 * Says what is wrong with a document.
 * @param errors - from Apollo Server, with codes
 * @param hidesSchema - whether a fixed sentence replaces what could name a part of the schema
 */
export function toDocumentErrors(
  errors: readonly GraphQLFormattedError[],
  hidesSchema: boolean,
): RequestErrors | StoreError {
  const refusal: unknown = errors.find(({ extensions }) => extensions?.refusal)?.extensions?.refusal;
  if (refusal instanceof StoreError) return refusal;
  const status = DOCUMENT_STATUSES[String(errors[0]?.extensions?.code)];
  // Apollo Server has no other errors for a document. The log has the message of a bug; the client does not see it.
  if (status === undefined) throw new Error(errors[0]?.message);
  // Every mistake against the schema has a place. graphql-js itself gives up if it compares too many fields.
  if (status === 422 && !errors[0]?.locations) {
    const reason = 'The document takes too long to validate: repeat fewer fields and fragments.';
    return new StoreError('unprocessable_request', reason);
  }
  const shown = errors.map((error) => {
    let { message } = error;
    if (hidesSchema && status === 422) message = 'The document does not fit the schema at this place.';
    // The message of Apollo Server explains how to configure the server.
    if (error.extensions?.validationErrorCode === 'INTROSPECTION_DISABLED')
      message = 'Introspection is turned off here.';
    // The parser is recursive. Every other mistake that it finds has a place.
    if (status === 400 && !error.locations) message = 'The document nests too deeply.';
    return { ...error, message };
  });
  return new RequestErrors(status, shown);
}

export function toInputError(message: string, locations: readonly SourceLocation[]): GraphQLFormattedError {
  return { message, locations, extensions: { code: 'BAD_USER_INPUT' } };
}

/** Formats an error without a place in the document. */
export function formatStoreError(error: StoreError): GraphQLFormattedError {
  const { code, message, details } = error;
  const { body, graphqlOnly = 'graphqlOnly' in ERRORS[code], retryAfter, cost } = details;
  const errorBody = body || !graphqlOnly ? toErrorBody(error) : undefined;
  return { message, extensions: { code: ERRORS[code].graphqlCode, error: errorBody, retryAfter, cost } };
}
