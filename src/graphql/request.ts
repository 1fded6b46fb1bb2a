import type { Config } from '../config.js';
import { copyText } from '../copy-text.js';
import { StoreError, toStoreError } from '../errors.js';
import type { HttpRequest } from '../http/request.js';
import { JsonNumber, parseJsonBody, parseUntrustedJson } from '../json/exact-json.js';
import type { OperationRequest, Variables } from './types.js';

/** Headers that a page of another origin cannot send without asking first. */
const PREFLIGHTED_HEADERS = ['authorization', 'apollo-require-preflight', 'x-apollo-operation-name'] as const;

const EXAMPLE = '{"query": "{ pets { id } }"}';
const QUERY_STRING = 'The query string';

/** @throws StoreError `bad_request`, `unprocessable_request` */
export function readGetRequest(http: HttpRequest): OperationRequest {
  const isJson = /^application\/json\b/i.test(http.header('content-type') ?? '');
  if (!isJson && !PREFLIGHTED_HEADERS.some((name) => http.header(name))) {
    throw new StoreError(
      'bad_request',
      `This GET could come from any page (CSRF): send one of the headers ${PREFLIGHTED_HEADERS.join(', ')}, not empty.`,
    );
  }
  const parameters = new URLSearchParams(http.search);
  const read = (name: string): string | undefined => {
    const [value, other] = parameters.getAll(name);
    if (other !== undefined) throw malformed(`The query string has ${name} twice.`);
    return value && copyText(value);
  };
  const readJson = (name: string): unknown => {
    try {
      return parseUntrustedJson(read(name) || 'null', `The parameter ${name}`);
    } catch (error) {
      throw malformed(toStoreError(error).message);
    }
  };
  const [query, documentId, operationName] = ['query', 'documentId', 'operationName'].map(read);
  const [variables, extensions] = ['variables', 'extensions'].map(readJson);
  return toOperation({ query, documentId, operationName, variables, extensions }, QUERY_STRING);
}

/** @throws StoreError `bad_request`, `unprocessable_request`; one malformed entry refuses the batch */
export function readBodyRequest(
  http: HttpRequest,
  { maxBatch }: Config['limits'],
): OperationRequest | readonly OperationRequest[] {
  const body = parseJsonBody(http.body, EXAMPLE);
  if (!Array.isArray(body)) return toOperation(body, 'The request body');
  if (body.length === 0 || body.length > maxBatch) {
    const code = body.length === 0 ? 'unprocessable_request' : 'bad_request';
    throw new StoreError(code, `A batch holds 1 to ${maxBatch} operations; this one has ${body.length}.`);
  }
  return body.map((entry, index) => toOperation(entry, `Entry ${index} of the batch`));
}

function toOperation(sent: unknown, subject: string): OperationRequest {
  if (!isRecord(sent)) throw malformed(`${subject} must be an object such as ${EXAMPLE}.`);
  const query = toText(sent, 'query', subject);
  const documentId = toText(sent, 'documentId', subject) || undefined;
  const persistedHash = toPersistedHash(toRecord(sent, 'extensions', subject)?.persistedQuery, subject);
  const isNamed = documentId !== undefined || persistedHash !== undefined;
  if (query === undefined && !isNamed) {
    const example = subject === QUERY_STRING ? '?query={pets{id}}' : EXAMPLE;
    throw malformed(`${subject} has no query, documentId or persistedQuery extension: send ${example}.`);
  }
  return {
    // An empty query is a document that cannot be parsed, unless the request names another.
    query: isNamed ? query || undefined : query,
    documentId,
    persistedHash,
    operationName: toText(sent, 'operationName', subject) || undefined,
    variables: toRecord(sent, 'variables', subject),
  };
}

/** Null counts as absent. */
function toText(sent: Variables, name: string, subject: string): string | undefined {
  const value = sent[name] ?? undefined;
  if (value === undefined || typeof value === 'string') return value;
  throw malformed(`${subject} must have a string for ${name}.`);
}

function toRecord(sent: Variables, name: string, subject: string): Variables | undefined {
  const value = sent[name] ?? undefined;
  if (value === undefined || isRecord(value)) return value;
  throw malformed(`${subject} must have an object for ${name}, such as {"id": "1"}, and not its text.`);
}

/** Null and false count as absent, as in Apollo Server. */
function toPersistedHash(value: unknown, subject: string): string | undefined {
  if (value == null || value === false) return undefined;
  const { version, sha256Hash } = isRecord(value) ? value : {};
  if (version === 1 && typeof sha256Hash === 'string' && sha256Hash) return sha256Hash;
  throw malformed(`${subject} has a persistedQuery that is not {"version": 1, "sha256Hash": "…"}.`);
}

function isRecord(value: unknown): value is Variables {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof JsonNumber);
}

function malformed(message: string): StoreError {
  return new StoreError('unprocessable_request', message);
}
