import { outcomeOf, type UsageCounter } from '../access/usage.js';
import type { HttpRequest } from '../http/request.js';
import type { LoggedFields } from '../http/reply.js';
import type { Metrics, OperationOutcome } from '../observability/metrics.js';
import type { StoreError } from '../errors.js';
import type { PreparedOperation } from './prepared-documents.js';
import type { OperationResponse } from './response.js';

/** What is known of an operation that has been answered. */
export interface AnsweredOperation {
  /** Absent when the operation could not be prepared. */
  readonly operation: PreparedOperation | undefined;
  /** Requests charged. */
  readonly cost: number;
  readonly response: Pick<OperationResponse, 'hasData' | 'hasErrors' | 'failures'>;
}

export interface OperationRecorderOptions {
  /** Absent where another store counts. */
  readonly usage: UsageCounter | undefined;
  readonly metrics: Metrics;
  /** Whether usage marks the operations of documents that are not trusted. */
  readonly marksUntrusted: boolean;
}

/** Precedes the names of operations that are not trusted. No name in GraphQL has a colon. */
const UNTRUSTED = 'untrusted:';
/** In place of the name of an operation that could not be prepared. */
const UNKNOWN = 'unknown';
/** Characters of an operation's name. */
const MAX_NAME = 100;

/** Creates what records the answers: in the metrics, the usage of the key and the log line of the request. */
export function createOperationRecorder(options: OperationRecorderOptions) {
  const { usage, metrics, marksUntrusted } = options;

  return {
    /** @param seconds - how long the operations of the request took together */
    record(operations: readonly AnsweredOperation[], seconds: number, context: HttpRequest, keyId?: string) {
      const { isCancelled } = context;
      const names: string[] = [];
      const failures: StoreError[] = [];
      const logged: { -readonly [Name in keyof LoggedFields]: LoggedFields[Name] } = { cost: 0 };
      for (const answered of operations) {
        const { operation, cost, response } = answered;
        const outcome = toOutcome(response, isCancelled);
        const trustedName = operation?.isPinned ? operation.name : undefined;
        metrics.observeOperation(operation?.type ?? UNKNOWN, outcome, seconds, trustedName);
        const name = operation?.name === undefined ? undefined : context.redact(operation.name).slice(0, MAX_NAME);
        const shownName = name ?? operation?.type ?? UNKNOWN;
        if (count(answered, shownName, context, keyId))
          Object.assign(logged, { deprecated: true, client: context.clientName });
        logged.cost = (logged.cost ?? 0) + cost;
        names.push(shownName);
        failures.push(...response.failures);
      }
      logged.operations = names.join();
      return { logged, failures };
    },
    /** Records a request that was refused before its operations were known. */
    recordRefusal(error: StoreError, context: HttpRequest, keyId?: string): void {
      const response = { hasData: false, hasErrors: true, failures: [error] };
      count({ operation: undefined, cost: 0, response }, UNKNOWN, context, keyId);
    },
  };

  function count(answered: AnsweredOperation, name: string, context: HttpRequest, keyId?: string): boolean {
    const { operation, cost, response } = answered;
    const isDeprecated = response.hasData && operation !== undefined && operation.deprecations.length > 0;
    if (!usage || keyId === undefined) return isDeprecated;
    const mark = marksUntrusted && operation?.isPinned === false ? UNTRUSTED : '';
    usage.count({
      keyId,
      client: context.clientName,
      operation: mark + name,
      deprecated: isDeprecated ? operation.deprecations.map(({ coordinate }) => coordinate).join() : '',
      cost,
      outcome: outcomeOf(response.hasErrors, response.failures),
    });
    return isDeprecated;
  }
}

export type OperationRecorder = ReturnType<typeof createOperationRecorder>;

function toOutcome(response: AnsweredOperation['response'], isCancelled: boolean): OperationOutcome {
  const { hasData, hasErrors, failures } = response;
  if (hasData && !hasErrors) return 'ok';
  if (failures.some(({ status }) => status >= 500)) return isCancelled ? 'cancelled' : 'failed';
  return hasData ? 'error' : 'refused';
}
