import type { RequestContext } from '../http/request-context.js';
import { readBody } from '../http/body.js';
import { parseUntrustedJson } from '../json/exact-json.js';
import { requireJsonBody } from '../http/media-type.js';
import { StoreError } from '../errors.js';
import { requireSmallBatch } from './document-limits.js';

/** One operation as it came over HTTP. */
export interface OperationRequest {
  readonly query: string | undefined;
  readonly operationName: string | undefined;
  readonly variables: Record<string, unknown> | undefined;
  readonly extensions: Record<string, unknown> | undefined;
}

/** What an HTTP request asks for: one operation, or a batch of them. */
export interface GraphqlRequest {
  readonly isBatch: boolean;
  readonly operations: readonly OperationRequest[];
}

export interface RequestLimits {
  readonly maxBodyBytes: number;
  /** Operations in a batch. */
  readonly maxBatch: number;
  /** Tokens in a document. */
  readonly maxTokens: number;
}

/** Headers that a page of another origin cannot send without asking first. */
const PREFLIGHTED_HEADERS = ['authorization', 'apollo-require-preflight', 'x-apollo-operation-name'] as const;

/**
 * Reads the operation in the query string of a GET.
 * @throws StoreError `bad_request`, `unsupported_media_type`
 */
export function readGetRequest(context: RequestContext): GraphqlRequest {
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
      operationName: once(parameters, 'operationName'),
      variables: parseJsonParameter(parameters, 'variables'),
      extensions: parseJsonParameter(parameters, 'extensions'),
    },
    'The request',
  );
  return { isBatch: false, operations: [operation] };
}

/**
 * Reads the operation or batch in the body of a POST.
 * @throws StoreError `bad_request`, `unsupported_media_type`, `payload_too_large`; one malformed entry refuses the batch
 */
export async function readPostRequest(
  context: RequestContext,
  { maxBodyBytes, maxBatch, maxTokens }: RequestLimits,
): Promise<GraphqlRequest> {
  const { headers } = context.request;
  requireJsonBody(headers['content-type'], headers['content-encoding']);
  const body = parseUntrustedJson(await readBody(context, maxBodyBytes), 'The request body');
  if (!Array.isArray(body)) return { isBatch: false, operations: [toOperation(body, 'The request body')] };
  if (body.length === 0 || body.length > maxBatch) {
    throw new StoreError('bad_request', `A batch holds 1 to ${maxBatch} operations; this one has ${body.length}.`);
  }
  const operations = body.map((entry, index) => toOperation(entry, `Entry ${index} of the batch`));
  requireSmallBatch(
    operations.map(({ query }) => query),
    maxTokens,
  );
  return { isBatch: true, operations };
}

function toOperation(value: unknown, subject: string): OperationRequest {
  if (!isRecord(value)) throw new StoreError('bad_request', `${subject} must be a JSON object with a query.`);
  const { query, operationName, variables, extensions } = value;
  if (query != null && typeof query !== 'string')
    throw new StoreError('bad_request', `${subject} has a query that is not a string.`);
  if (operationName != null && typeof operationName !== 'string') {
    throw new StoreError('bad_request', `${subject} has an operationName that is not a string.`);
  }
  if (variables != null && !isRecord(variables))
    throw new StoreError('bad_request', `${subject} has variables that are not an object.`);
  if (extensions != null && !isRecord(extensions))
    throw new StoreError('bad_request', `${subject} has extensions that are not an object.`);
  if (!query && !isRecord(extensions?.persistedQuery)) {
    throw new StoreError('bad_request', `${subject} has neither a query nor a persistedQuery extension.`);
  }
  return {
    query: query || undefined,
    operationName: operationName || undefined,
    variables: variables ?? undefined,
    extensions: extensions ?? undefined,
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function once(parameters: URLSearchParams, name: string): string | undefined {
  const values = parameters.getAll(name);
  if (values.length > 1) throw new StoreError('bad_request', `The parameter ${name} is given twice.`);
  return values[0];
}

function parseJsonParameter(parameters: URLSearchParams, name: string): unknown {
  const text = once(parameters, name);
  return text === undefined || text === '' ? undefined : parseUntrustedJson(text, `The parameter ${name}`);
}
