import type { GraphQLFormattedError } from 'graphql';
import type { Visit } from '../access/visit.js';
import { StoreError, withCost } from '../errors.js';
import type { Deprecation } from './deprecations.js';
import { formatStoreError } from './format-error.js';

/** The answer to one operation. */
export interface OperationResponse {
  readonly status: number;
  /** By their lower-case names. */
  readonly headers: Record<string, string>;
  /** The result as JSON text. */
  readonly text: string;
  readonly hasData: boolean;
  readonly hasErrors: boolean;
}

export interface OperationResult {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly errors?: readonly GraphQLFormattedError[] | undefined;
  /** JSON text; undefined when the operation did not run. */
  readonly data?: string | undefined;
  readonly deprecations?: readonly Deprecation[];
  readonly requestId: string;
}

const NO_HEADERS = {};

/** Puts an answer together. Every error names the request, for whoever reports it. */
export function toResponse(result: OperationResult): OperationResponse {
  const { status = 200, headers = NO_HEADERS, errors = [], data, deprecations = [], requestId } = result;
  if (data !== undefined && errors.length === 0 && deprecations.length === 0) {
    return { status, headers, text: `{"data":${data}}`, hasData: true, hasErrors: false };
  }
  const members: string[] = [];
  if (errors.length > 0) {
    const named = errors.map((error) => ({ ...error, extensions: { ...error.extensions, requestId } }));
    members.push(`"errors":${JSON.stringify(named)}`);
  }
  if (data !== undefined) members.push(`"data":${data}`);
  if (deprecations.length > 0) members.push(`"extensions":${JSON.stringify({ deprecations })}`);
  return { status, headers, text: `{${members.join()}}`, hasData: data !== undefined, hasErrors: errors.length > 0 };
}

/** The answer to an operation that did not run. */
export function toRefusal(
  error: StoreError,
  requestId: string,
  deprecations: readonly Deprecation[] = [],
): OperationResponse {
  const headers = toHeaders(Object.entries(error.headers));
  return toResponse({ status: error.status, headers, errors: [formatStoreError(error)], deprecations, requestId });
}

/** The status line and headers of a batch: 200 if any operation ran, else what they share. */
export function toBatchHead(responses: readonly OperationResponse[]): Pick<OperationResponse, 'status' | 'headers'> {
  if (responses.some(({ hasData }) => hasData)) return { status: 200, headers: longestWait(responses) };
  const [first] = responses as [OperationResponse];
  const isShared = responses.every(({ status }) => status === first.status);
  return isShared
    ? { status: first.status, headers: { ...first.headers, ...longestWait(responses) } }
    : { status: 400, headers: longestWait(responses) };
}

function longestWait(responses: readonly OperationResponse[]): Record<string, string> {
  const waits = responses.map(({ headers }) => Number(headers['retry-after'] ?? 0));
  const longest = Math.max(...waits);
  return longest > 0 ? { 'retry-after': String(longest) } : {};
}

/** Headers by their lower-case names. */
export function toHeaders(headers: Iterable<readonly [string, string]>): Record<string, string> {
  return Object.fromEntries([...headers].map(([name, value]) => [name.toLowerCase(), value]));
}

const UPSTREAM_REFUSALS: ReadonlySet<string> = new Set(['unauthorized', 'rate_limited', 'key_banned']);

/**
 * Why no field of an operation got data, when the reason is that the upstream refused the key or its rate: such an answer
 * is as a whole what it would have been, had the gateway known before.
 * @param isEmpty - whether every field is null
 */
export function findUpstreamRefusal(isEmpty: boolean, failures: readonly StoreError[]): StoreError | undefined {
  return isEmpty && failures.every(({ code }) => UPSTREAM_REFUSALS.has(code)) ? failures[0] : undefined;
}

/**
 * Makes the upstream's refusal that of the whole operation: with what it would have cost, and a 401 counted for the client's
 * address, as if it had been found out here.
 */
export async function toWholeRefusal(refusal: StoreError, cost: number, visit: Visit): Promise<StoreError> {
  if (refusal.code !== 'unauthorized') return withCost(refusal, cost);
  try {
    await visit.requireKey();
  } catch (error) {
    if (error instanceof StoreError && error.code === 'rate_limited') return error;
  }
  return refusal;
}
