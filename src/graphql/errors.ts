import { GraphQLError, OperationTypeNode, type GraphQLFormattedError, type GraphQLSchema } from 'graphql';
import { StoreError, toErrorBody, toStoreError } from '../errors.js';
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

/** What a field failed with. `cause` is the error in the program's own terms. */
export class FieldError {
  constructor(
    readonly cause: StoreError,
    readonly locations?: GraphQLError['locations'],
  ) {}

  static of(thrown: unknown): FieldError {
    if (!(thrown instanceof GraphQLError)) return new FieldError(toStoreError(thrown));
    // The Error body speaks of no types of GraphQL, which the client may not have written.
    const message = thrown.message.replace(/ of (?:non-null|required) type "[^"]*"/, '');
    return new FieldError(new StoreError('invalid_request', message), thrown.locations);
  }
}

/** Errors reported for one document or its variables: each takes time to place in the text. */
export const MAX_ERRORS = 5;
/** Limits of one error: characters of its message, and places in the document. */
const MAX_MESSAGE = 500;
const MAX_LOCATIONS = 10;

/** What graphql-js tells of the schema that the client did not write, and what to say instead. */
const SCHEMA_DETAILS: readonly (readonly [RegExp, string])[] = [
  // Apollo Server's message tells clients how to configure the server.
  [/^GraphQL introspection is not allowed.*$/s, 'Introspection is turned off here.'],
  [/ ?Did you mean .*$/s, ''],
  [/Field "[^"]*" of required type "[^"]*" was not provided\./, 'A required field was not provided.'],
  [/ argument "[^"]*" of type "[^"]*" is required, but it was not provided\./, ' needs another argument.'],
  [/ (?:on|by|of) type "[^"]*"/, ''],
  [/(?<!Unknown) type "[^"]*"/, ' type'],
  [/Enum "[^"]*"/, 'The enum'],
  [/"[^"]*" enum/, 'the enum'],
];

/** Gives a request error of Apollo Server or graphql-js the form in which clients see it. */
export type ErrorFormatter = (formatted: GraphQLFormattedError, error: unknown) => GraphQLFormattedError;

/**
 * Makes the formatter of request errors. Long messages are cut.
 * @param hideSchema - whether messages must not name anything of the schema that the client did not write
 */
export function createErrorFormatter(schema: GraphQLSchema, hideSchema: boolean): ErrorFormatter {
  return (formatted, error) => {
    // Such as that of a persisted query with a wrong hash. Apollo would call it an internal error.
    const isCodeless = error instanceof GraphQLError && error.extensions.code === undefined;
    const coded = isCodeless
      ? { ...formatted, ...formatStoreError(new StoreError('bad_request', formatted.message)) }
      : formatted;
    const { message: whole, locations, ...rest } = coded;
    const message =
      findEmptySelection(error) ??
      findEmptyQuery(whole) ??
      (hideSchema ? hideDetails(whole) : (findOtherRoot(whole, schema) ?? whole));
    return {
      message: message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE).toWellFormed()}…` : message,
      ...(locations && { locations: locations.slice(0, MAX_LOCATIONS) }),
      ...rest,
    };
  };
}

function hideDetails(message: string): string {
  return SCHEMA_DETAILS.reduce((text, [detail, replacement]) => text.replace(detail, replacement), message);
}

/** Errors that depend on the text of the document only, with their HTTP statuses. */
const DOCUMENT_ERRORS: ReadonlyMap<unknown, number> = new Map([
  ['GRAPHQL_PARSE_FAILED', 400],
  ['GRAPHQL_VALIDATION_FAILED', 422],
]);

/** Finds the HTTP status for the errors of a document. Undefined if they are about something else. */
export function findDocumentStatus(errors: readonly GraphQLFormattedError[]): number | undefined {
  const statuses = errors.map(({ extensions }) => DOCUMENT_ERRORS.get(extensions?.code));
  return statuses.includes(undefined) ? undefined : statuses[0];
}

/** Apollo Server's message names a persisted query, of which the client knows nothing. */
function findEmptyQuery(message: string): string | undefined {
  const isEmpty = message.startsWith('GraphQL operations must contain a non-empty `query`');
  return isEmpty ? 'The query is empty: send {"query": "{ pets { id } }"}.' : undefined;
}

const OPENING_BRACE = /\{(?:[\s,\ufeff]|#.*\n)*$/;

/** The September 2026 edition allows `{ }` as a selection, which graphql-js 16 cannot parse. */
function findEmptySelection(error: unknown): string | undefined {
  if (!(error instanceof GraphQLError) || !error.message.endsWith('Expected Name, found "}".')) return undefined;
  const before = error.source?.body.slice(0, error.positions?.[0]) ?? '';
  if (!OPENING_BRACE.test(before)) return undefined;
  return 'Syntax Error: This selection is empty. Empty selections (GraphQL September 2026) are not supported: select a field.';
}

/** Words the error for a mutation in a query, and for a query in a mutation. */
function findOtherRoot(message: string, schema: GraphQLSchema): string | undefined {
  const [, name = '', type] = /^Cannot query field "(\w+)" on type "(Query|Mutation)"/.exec(message) ?? [];
  const other = type === 'Query' ? OperationTypeNode.MUTATION : OperationTypeNode.QUERY;
  const isThere = type !== undefined && Object.hasOwn(schema.getRootType(other)?.getFields() ?? {}, name);
  return isThere ? `${name} is a ${other}: write ${other} { ${name} … }.` : undefined;
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

/** Whether an error is unexpected in Apollo Server's pipeline. Its message may leak anything. */
export function isUnforeseen(error: unknown): boolean {
  if (!(error instanceof GraphQLError)) return true;
  // Apollo's request errors have a code; graphql-js's validation and syntax errors have no original error.
  return error.extensions.code === undefined && error.originalError !== undefined;
}
