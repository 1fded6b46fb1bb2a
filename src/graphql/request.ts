import type { Config } from '../config.js';
import { StoreError, toStoreError } from '../errors.js';
import type { HttpRequest } from '../http/request.js';
import { parseJsonBody } from '../http/body.js';
import { JsonNumber, parseUntrustedJson } from '../json/exact-json.js';
import type { OperationRequest, PersistedQuery, GraphqlRequest } from './types.js';

/** Headers that a page of another origin cannot send without asking first. */
const PREFLIGHTED_HEADERS = ['authorization', 'apollo-require-preflight', 'x-apollo-operation-name'] as const;

const EXAMPLE = '{"query": "{ pets { id } }"}';

/**
 * Reads the operation in the query string of a GET or HEAD.
 * @throws StoreError `bad_request`, `unprocessable_request`
 */
export function readGetRequest(context: HttpRequest): GraphqlRequest {
  const isJson = /^application\/json\b/i.test(context.header('content-type') ?? '');
  if (!isJson && !PREFLIGHTED_HEADERS.some((name) => context.header(name))) {
    throw new StoreError(
      'bad_request',
      `This GET could come from any page (CSRF): send one of the headers ${PREFLIGHTED_HEADERS.join(', ')}, not empty.`,
    );
  }
  const parameters = new URLSearchParams(context.search);
  const operation = toOperation(
    {
      query: once(parameters, 'query'),
      documentId: once(parameters, 'documentId'),
      operationName: once(parameters, 'operationName'),
      variables: parseJsonParameter(parameters, 'variables'),
      extensions: parseJsonParameter(parameters, 'extensions'),
    },
    'The query string',
  );
  return { isBatch: false, operations: [operation] };
}

/**
 * Reads the operation or batch in the body of a POST or QUERY.
 * @throws StoreError `bad_request`, `unprocessable_request`; one malformed entry refuses the batch
 */
export function readBodyRequest(context: HttpRequest, { maxBatch }: Config['limits']): GraphqlRequest {
  const body = parseJsonBody(context, EXAMPLE);
  if (!Array.isArray(body)) return { isBatch: false, operations: [toOperation(body, 'The request body')] };
  if (body.length === 0 || body.length > maxBatch) {
    const code = body.length === 0 ? 'unprocessable_request' : 'bad_request';
    throw new StoreError(code, `A batch holds 1 to ${maxBatch} operations; this one has ${body.length}.`);
  }
  return { isBatch: true, operations: body.map((entry, index) => toOperation(entry, `Entry ${index} of the batch`)) };
}

function toOperation(value: unknown, subject: string): OperationRequest {
  if (!isRecord(value)) throw malformed(`${subject} must be an object such as ${EXAMPLE}.`);
  const extensions = toRecord(value.extensions, 'extensions', subject);
  const operation = {
    query: toText(value.query, 'query', subject),
    documentId: toText(value.documentId, 'documentId', subject) || undefined,
    persistedQuery: toPersistedQuery(extensions?.persistedQuery, subject),
    operationName: toText(value.operationName, 'operationName', subject) || undefined,
    variables: toRecord(value.variables, 'variables', subject),
  };
  const { query, documentId, persistedQuery } = operation;
  if (documentId !== undefined || persistedQuery) return { ...operation, query: query || undefined };
  // An empty query is a document that cannot be parsed.
  if (query !== undefined) return operation;
  throw malformed(`${subject} has no query, documentId or persistedQuery extension: send ${EXAMPLE}.`);
}

/** Null and false count as absent, as in Apollo Server. */
function toPersistedQuery(value: unknown, subject: string): PersistedQuery | undefined {
  if (value == null || value === false) return undefined;
  const { version, sha256Hash } = isRecord(value) ? value : {};
  if (typeof version === 'number' && typeof sha256Hash === 'string' && sha256Hash) return { version, sha256Hash };
  throw malformed(`${subject} has a malformed persistedQuery: send {"version": 1, "sha256Hash": "…"}.`);
}

/** Null counts as absent. */
function toText(value: unknown, name: string, subject: string): string | undefined {
  if (value == null || typeof value === 'string') return value ?? undefined;
  throw malformed(`${subject} must have a string for ${name}.`);
}

function toRecord(value: unknown, name: string, subject: string): Record<string, unknown> | undefined {
  if (value == null || isRecord(value)) return value ?? undefined;
  throw malformed(`${subject} must have an object for ${name}, such as {"id": "1"}, and not its text.`);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof JsonNumber);
}

function malformed(message: string): StoreError {
  return new StoreError('unprocessable_request', message);
}

function once(parameters: URLSearchParams, name: string): string | undefined {
  const values = parameters.getAll(name);
  if (values.length > 1) throw malformed(`The query string has ${name} twice.`);
  return values[0];
}

function parseJsonParameter(parameters: URLSearchParams, name: string): unknown {
  const text = once(parameters, name);
  if (text === undefined || text === '') return undefined;
  try {
    return parseUntrustedJson(text, `The parameter ${name}`);
  } catch (error) {
    throw malformed(toStoreError(error).message);
  }
}
