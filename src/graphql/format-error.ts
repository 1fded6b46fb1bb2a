import { GraphQLError, type ASTNode, type GraphQLFormattedError } from 'graphql';
import { StoreError, toErrorBody, toStoreError } from '../errors.js';

/**
 * Makes a request error of a StoreError: one that decides the HTTP status.
 * @param nodes - the places in the document that are the reason of it
 */
export function toRequestError(error: StoreError, nodes?: readonly ASTNode[]): GraphQLError {
  return new GraphQLError(error.message, {
    ...(nodes && { nodes }),
    originalError: error,
    extensions: { http: { status: error.status, headers: new Map(Object.entries(error.headers)) } },
  });
}

/** The StoreError that a GraphQL error stands for; undefined for an error of GraphQL itself. */
export function findStoreError(error: unknown): StoreError | undefined {
  if (error instanceof StoreError) return error;
  return error instanceof GraphQLError && error.originalError instanceof StoreError ? error.originalError : undefined;
}

/** What a message may quote of a request, in characters, and the places in the document that it may name. */
const MAX_MESSAGE = 500;
const MAX_LOCATIONS = 10;

/** What graphql-js knows of the schema and a message would tell. */
const SUGGESTION = / ?Did you mean .*$/s;

/**
 * Makes what gives an error the form in which clients see it. What nobody foresaw is masked, what quotes half the request is cut.
 * @param hideSchema - whether messages may not suggest names of the schema; Apollo sees to it for validation, not for variables
 */
export function createFormatError(
  hideSchema: boolean,
): (formatted: GraphQLFormattedError, error: unknown) => GraphQLFormattedError {
  return (formatted, error) => {
    const { message: whole, locations, ...rest } = toKnownForm(formatted, error);
    const message = hideSchema ? whole.replace(SUGGESTION, '') : whole;
    return {
      message: message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message,
      ...(locations && { locations: locations.slice(0, MAX_LOCATIONS) }),
      ...rest,
    };
  };
}

function toKnownForm(formatted: GraphQLFormattedError, error: unknown): GraphQLFormattedError {
  const storeError = findStoreError(error);
  if (storeError) return { ...formatted, ...formatStoreError(storeError) };
  if (isArgumentError(error)) {
    return { ...formatted, ...formatStoreError(new StoreError('invalid_request', formatted.message)) };
  }
  if (isUnforeseen(error)) return { ...formatted, ...formatStoreError(toStoreError(error)) };
  return isCodeless(error)
    ? { ...formatted, ...formatStoreError(new StoreError('bad_request', formatted.message)) }
    : formatted;
}

/** An error in the form in which clients see it, without a place in the document. */
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

/** Tells an error that the program neither made nor foresaw, and whose message may leak anything. */
export function isUnforeseen(error: unknown): boolean {
  if (findStoreError(error) || isArgumentError(error)) return false;
  if (!(error instanceof GraphQLError)) return true;
  // Apollo's request errors carry a code, graphql-js's validation and syntax errors have no original.
  return error.extensions.code === undefined && (error.originalError !== undefined || error.path !== undefined);
}

/**
 * Tells a refusal of the whole request that brings no code, such as that of a persisted query whose hash is wrong. Apollo
 * would give it the code of a fault of ours.
 */
function isCodeless(error: unknown): boolean {
  return error instanceof GraphQLError && error.extensions.code === undefined;
}

/**
 * Tells the executor's own complaint about an argument, such as null through a nullable variable: it is a GraphQLError
 * about a place in the document, wrapped with the path of its field.
 */
function isArgumentError(error: unknown): boolean {
  return (
    error instanceof GraphQLError &&
    error.path !== undefined &&
    error.originalError instanceof GraphQLError &&
    error.originalError.nodes !== undefined
  );
}
