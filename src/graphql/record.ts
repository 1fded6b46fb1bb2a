import { outcomeOf, type UsageCounter } from '../access/usage.js';
import type { StoreError } from '../errors.js';
import type { LoggedFields } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';
import type { Metrics, OperationOutcome } from '../observability/metrics.js';
import type { Answered, Execution } from './types.js';

/** Precedes the names of operations that are not trusted. No name in GraphQL has a colon. */
const UNTRUSTED = 'untrusted:';
/** In place of the name of an operation that could not be prepared. */
const UNKNOWN = 'unknown';
/** Characters of an operation's name. */
const MAX_NAME = 100;

/**
 * Creates what records the answers: in the metrics and the usage of the key.
 * @param usage - absent where another store counts
 * @param marksUntrusted - whether usage marks the operations of documents that are not trusted
 */
export function createRecorder(usage: UsageCounter | undefined, metrics: Metrics, marksUntrusted: boolean) {
  return {
    /**
     * @param seconds - how long the operations of the request took together
     * @returns what to log
     */
    record({ answers, untrusted }: Execution, seconds: number, context: HttpRequest, keyId?: string): LoggedFields {
      const names = answers.map((answered) => {
        const { prepared, response } = answered;
        const operation = prepared?.operation;
        const trustedName = operation?.isTrusted ? operation.name : undefined;
        const outcome = toOutcome(response, context.isCancelled);
        metrics.observeOperation(operation?.type ?? UNKNOWN, outcome, seconds, trustedName);
        const name = operation?.name === undefined ? undefined : context.redact(operation.name).slice(0, MAX_NAME);
        const shown = name ?? operation?.type ?? UNKNOWN;
        count(answered, shown, context, keyId);
        return shown;
      });
      const isDeprecated = answers.some((answered) => listDeprecated(answered) !== '');
      return {
        cost: answers.reduce((sum, { cost }) => sum + cost, 0),
        operations: names.join(),
        ...(isDeprecated && { deprecated: true }),
        ...(untrusted.length > 0 && { untrusted: untrusted.join(' ') }),
        ...((isDeprecated || untrusted.length > 0) && { client: context.clientName }),
      };
    },
    /** Records a request that was refused before its operations were known. */
    recordRefusal(error: StoreError, context: HttpRequest, keyId?: string): void {
      const response = { hasData: false, hasErrors: true, failures: [error] };
      count({ cost: 0, response }, UNKNOWN, context, keyId);
    },
  };

  function count(answered: Counted, name: string, { clientName }: HttpRequest, keyId?: string): void {
    if (!usage || keyId === undefined) return;
    const { prepared, cost, response } = answered;
    const mark = marksUntrusted && prepared?.operation.isTrusted === false ? UNTRUSTED : '';
    usage.count({
      keyId,
      client: clientName,
      operation: mark + name,
      deprecated: listDeprecated(answered),
      cost,
      outcome: outcomeOf(response.hasErrors, response.failures),
    });
  }
}

interface Counted extends Omit<Answered, 'response'> {
  readonly response: Pick<Answered['response'], 'hasData' | 'hasErrors' | 'failures'>;
}

function listDeprecated({ prepared, response }: Counted): string {
  const used = response.hasData ? (prepared?.compiled.deprecations ?? []) : [];
  return used.map(({ coordinate }) => coordinate).join();
}

function toOutcome({ hasData, hasErrors, failures }: Counted['response'], isCancelled: boolean): OperationOutcome {
  if (hasData && !hasErrors) return 'ok';
  if (failures.some(({ status }) => status >= 500)) return isCancelled ? 'cancelled' : 'failed';
  return hasData ? 'error' : 'refused';
}
