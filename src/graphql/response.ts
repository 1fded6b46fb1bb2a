import type { GraphQLFormattedError } from 'graphql';
import type { Visit } from '../access/visit.js';
import { StoreError } from '../errors.js';

/** The answer to one operation. */
export interface OperationResponse {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly result: Record<string, unknown>;
}

/** The status line and headers of a batch: 200 if any operation ran, else what they share. */
export function toBatchHead(responses: readonly OperationResponse[]): Pick<OperationResponse, 'status' | 'headers'> {
  if (responses.some(({ result }) => 'data' in result)) return { status: 200, headers: longestWait(responses) };
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

/** Errors that name the request, for whoever reports them. */
export function withRequestId(errors: readonly GraphQLFormattedError[], requestId: string): GraphQLFormattedError[] {
  return errors.map((error) => ({ ...error, extensions: { ...error.extensions, requestId } }));
}

/**
 * Why no field of an operation got data, when the reason is that the upstream refused the key or its rate: such an answer
 * is as a whole what it would have been, had the gateway known before.
 */
export function findUpstreamRefusal(
  data: Readonly<Record<string, unknown>> | null | undefined,
  failures: readonly StoreError[],
): StoreError | undefined {
  if (data == null || Object.values(data).some((value) => value !== null)) return undefined;
  return failures.every(({ code }) => UPSTREAM_REFUSALS.has(code)) ? failures[0] : undefined;
}

const UPSTREAM_REFUSALS: ReadonlySet<string> = new Set(['unauthorized', 'rate_limited', 'key_banned']);

/** Counts an answer of 401 for the client's address, as if it had been found out here. */
export async function countRefusal(refusal: StoreError, visit: Visit): Promise<StoreError> {
  if (refusal.code !== 'unauthorized') return refusal;
  try {
    await visit.requireKey();
  } catch (error) {
    if (error instanceof StoreError && error.code === 'rate_limited') return error;
  }
  return refusal;
}
