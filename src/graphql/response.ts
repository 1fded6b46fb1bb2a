import type { GraphQLFormattedError, SourceLocation } from 'graphql';
import { StoreError } from '../errors.js';
import type { Reply } from '../http/reply.js';
import type { RootField } from './compile.js';
import { FieldError, formatStoreError, type Refusal } from './errors.js';
import type { Deprecation } from './prepared-documents.js';
import type { Executed } from './run.js';

/** The response to one operation. */
export interface OperationResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The result as JSON. */
  readonly body: string | Uint8Array;
  readonly hasData: boolean;
  readonly hasErrors: boolean;
  /** What went wrong, in the program's own terms. */
  readonly failures: readonly StoreError[];
}

/** How long the response to an HTTP request may be. */
export interface ResponseBudget {
  readonly maxBytes: number;
  /** Bytes written so far. */
  written: number;
}

const NO_HEADERS = {};
/**
 * Longer texts become bytes when they are written. A batch of them would otherwise be turned into bytes as a whole, which
 * takes one caller a long turn.
 */
const LONG_TEXT = 65_536;

/**
 * Writes the response to an operation that has run.
 * @throws StoreError `operation_too_large` when the response would be longer than the budget allows
 */
export function writeResponse(
  { operation, fields, results, source }: Executed,
  requestId: string,
  budget: ResponseBudget,
): OperationResponse {
  const errors: string[] = [];
  let errorsLength = 0;
  const failures: StoreError[] = [];
  let locate: ((start: number) => SourceLocation) | undefined;
  let data = '';
  fields.forEach((field, index) => {
    let value = 'null';
    try {
      const result = results[index];
      if (result instanceof FieldError) fail(field, result);
      else value = field.write(result);
    } catch (error) {
      fail(field, FieldError.of(error));
    }
    data += `${index === 0 ? '{' : ','}"${field.responseKey}":${value}`;
    // A character takes at least one byte. Counting the bytes of every field would take longer.
    requireFit(data.length + errorsLength);
  });
  data += fields.length === 0 ? '{}' : '}';
  const text = join(errors, operation.deprecations, data);
  const body = text.length < LONG_TEXT ? text : Buffer.from(text);
  const bytes = Buffer.byteLength(body);
  requireFit(bytes);
  budget.written += bytes;
  return { status: 200, headers: NO_HEADERS, body, hasData: true, hasErrors: errors.length > 0, failures };

  function fail({ responseKey, starts }: RootField, { cause, locations }: FieldError): void {
    const { message, extensions } = formatStoreError(cause);
    failures.push(cause);
    locate ??= source.createLocator();
    const error = { message, locations: locations ?? starts.map(locate), path: [responseKey], extensions };
    const text = formatError(error, requestId);
    errors.push(text);
    errorsLength += text.length;
  }

  function requireFit(length: number): void {
    if (budget.written + length <= budget.maxBytes) return;
    const reason = `The response is longer than ${budget.maxBytes} bytes: ask for less at once.`;
    throw new StoreError('operation_too_large', reason);
  }
}

/** Writes the responses to a batch as one list. */
function joinBodies(responses: readonly OperationResponse[]): string | Uint8Array {
  const bodies = responses.map(({ body }) => body);
  if (bodies.every((body) => typeof body === 'string')) return `[${bodies.join()}]`;
  const parts = bodies.flatMap((body, index) => [index === 0 ? '[' : ',', body]);
  return Buffer.concat([...parts, ']'].map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
}

/** Writes the response to an operation that was refused. */
export function writeRefusal(refusal: Refusal, requestId: string): OperationResponse {
  const { status, operation, failure } = refusal;
  const errors = refusal.errors.map((error) => formatError(error, requestId));
  return {
    status,
    headers: failure?.headers ?? NO_HEADERS,
    body: join(errors, operation?.deprecations),
    hasData: false,
    hasErrors: true,
    failures: failure ? [failure] : [],
  };
}

/** The HTTP response to one operation. */
export function toReply(response: OperationResponse, mediaType: string): Reply {
  const headers = { 'Content-Type': mediaType, Vary: 'Accept', ...response.headers };
  return { status: toStatus(response, mediaType), headers, body: response.body };
}

/**
 * The HTTP response to a batch: 200 if any operation ran, otherwise the status that they share with their headers, or
 * 400.
 */
export function toBatchReply(responses: readonly OperationResponse[], mediaType: string): Reply {
  const longestWait = Math.max(...responses.map(({ headers }) => Number(headers['Retry-After'] ?? 0)));
  const [status = 400, ...others] = new Set(responses.map((response) => toStatus(response, mediaType)));
  const hasData = responses.some((response) => response.hasData);
  const isShared = !hasData && others.length === 0;
  const headers = {
    'Content-Type': mediaType,
    Vary: 'Accept',
    ...(isShared && responses[0]?.headers),
    ...(longestWait > 0 && { 'Retry-After': String(longestWait) }),
  };
  return { status: hasData ? 200 : isShared ? status : 400, headers, body: joinBodies(responses) };
}

/**
 * The HTTP status of a response to one operation. In the media type that defines it, data with errors is a 294, and
 * every response without data an error; a persisted query that is not found is a 200 in Apollo's protocol.
 * https://http-spec.graphql.org/September2026/#sec-Status-Codes
 */
function toStatus({ status, hasData, hasErrors }: OperationResponse, mediaType: string): number {
  if (status !== 200 || !hasErrors || !mediaType.startsWith('application/graphql-response+json')) return status;
  return hasData ? 294 : 422;
}

/** Writes an error as JSON. Every error names the request. */
function formatError(error: GraphQLFormattedError, requestId: string): string {
  return JSON.stringify({ ...error, extensions: { ...error.extensions, requestId } });
}

/**
 * Puts a response together.
 * @param errors - as JSON
 * @param data - as JSON; absent when the operation did not run
 */
function join(errors: readonly string[], deprecations: readonly Deprecation[] = [], data?: string): string {
  if (data !== undefined && errors.length === 0 && deprecations.length === 0) return `{"data":${data}}`;
  const members: string[] = [];
  if (errors.length > 0) members.push(`"errors":[${errors.join()}]`);
  if (data !== undefined) members.push(`"data":${data}`);
  if (deprecations.length > 0) members.push(`"extensions":${JSON.stringify({ deprecations })}`);
  return `{${members.join()}}`;
}
