import type { GraphQLFormattedError } from 'graphql';
import { toStoreError, type StoreError } from '../errors.js';
import type { Reply } from '../http/reply.js';
import { formatStoreError, RequestErrors } from './errors.js';
import type { Compiled, Deprecation, Outcome, OperationResponse } from './types.js';

const NO_HEADERS = {};

/** Writes the response to an operation that has run. */
export function writeResponse(
  { deprecations }: Compiled,
  outcomes: readonly Outcome[],
  requestId: string,
): OperationResponse {
  let data = '';
  const errors: string[] = [];
  const failures: StoreError[] = [];
  for (const { responseKey, json, failures: failed } of outcomes) {
    data += `${data === '' ? '{' : ','}"${responseKey}":${json}`;
    for (const { error, locations, path } of failed) {
      const { message, extensions } = formatStoreError(error);
      failures.push(error);
      errors.push(writeError({ message, locations, path, extensions }, requestId));
    }
  }
  const body = join(errors, deprecations, data === '' ? '{}' : `${data}}`);
  return { status: 200, headers: NO_HEADERS, body, hasData: true, hasErrors: errors.length > 0, failures };
}

/**
 * Writes the response to an operation that was refused.
 * @param thrown - by the step that refused it
 * @param compiled - if it got as far as being prepared
 */
export function writeRefusal(thrown: unknown, requestId: string, compiled?: Compiled): OperationResponse {
  const error = thrown instanceof RequestErrors ? undefined : toStoreError(thrown);
  const { status, errors } = error
    ? { status: error.status, errors: [formatStoreError(error)] }
    : (thrown as RequestErrors);
  const written = errors.map((one) => writeError(one, requestId));
  const body = join(written, compiled?.deprecations);
  const failures = error ? [error] : [];
  return { status, headers: error?.headers ?? NO_HEADERS, body, hasData: false, hasErrors: true, failures };
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
  const body = `[${responses.map((response) => response.body).join()}]`;
  return { status: hasData ? 200 : isShared ? status : 400, headers, body };
}

/**
 * In the media type that defines it, data with errors is a 294, and every response without data an error; a persisted
 * query that is not found is a 200 in Apollo's protocol.
 * https://http-spec.graphql.org/September2026/#sec-Status-Codes
 */
function toStatus({ status, hasData, hasErrors }: OperationResponse, mediaType: string): number {
  if (status !== 200 || !hasErrors || !mediaType.startsWith('application/graphql-response+json')) return status;
  return hasData ? 294 : 422;
}

/** Every error names the request. */
function writeError(error: GraphQLFormattedError, requestId: string): string {
  return JSON.stringify({ ...error, extensions: { ...error.extensions, requestId } });
}

/**
 * @param errors - as JSON
 * @param data - as JSON; absent if the operation did not run
 */
function join(errors: readonly string[], deprecations: readonly Deprecation[] = [], data?: string): string {
  if (data !== undefined && errors.length === 0 && deprecations.length === 0) return `{"data":${data}}`;
  const members: string[] = [];
  if (errors.length > 0) members.push(`"errors":[${errors.join()}]`);
  if (data !== undefined) members.push(`"data":${data}`);
  if (deprecations.length > 0) members.push(`"extensions":${JSON.stringify({ deprecations })}`);
  return `{${members.join()}}`;
}
