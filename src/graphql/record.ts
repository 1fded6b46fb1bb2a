import { outcomeOf, type UsageCounter } from '../access/usage.js';
import type { StoreError } from '../errors.js';
import type { LoggedFields } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';
import type { Metrics } from '../observability/metrics.js';
import type { Answered, Execution, OperationResponse } from './types.js';

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
      const names = answers.map(({ prepared, priced, response }) => {
        const { name, type = UNKNOWN } = prepared?.operation ?? {};
        const isTrusted = prepared?.isTrusted ?? true;
        const outcome = toOutcome(response, context.isCancelled);
        metrics.observeOperation(type, outcome, seconds, isTrusted ? name : undefined);
        const shown = name === undefined ? type : context.redact(name).slice(0, MAX_NAME);
        if (usage && keyId !== undefined) {
          usage.count({
            keyId,
            client: context.clientName,
            operation: marksUntrusted && !isTrusted ? UNTRUSTED + shown : shown,
            deprecated: listDeprecated(prepared, response),
            cost: priced?.cost ?? 0,
            outcome: outcomeOf(response.hasErrors, response.failures),
          });
        }
        return shown;
      });
      const isDeprecated = answers.some(({ prepared, response }) => listDeprecated(prepared, response) !== '');
      return {
        cost: answers.reduce((sum, { priced }) => sum + (priced?.cost ?? 0), 0),
        operations: names.join(),
        ...(isDeprecated && { deprecated: true }),
        ...(untrusted.length > 0 && { untrusted: untrusted.join(' ') }),
        ...((isDeprecated || untrusted.length > 0) && { client: context.clientName }),
      };
    },
    /** Records a request that was refused before its operations were known. */
    recordRefusal(error: StoreError, { clientName: client }: HttpRequest, keyId?: string): void {
      if (!usage || keyId === undefined) return;
      usage.count({ keyId, client, operation: UNKNOWN, deprecated: '', cost: 0, outcome: outcomeOf(true, [error]) });
    },
  };
}

function listDeprecated(prepared: Answered['prepared'], { hasData }: OperationResponse): string {
  const used = hasData ? (prepared?.compiled.deprecations ?? []) : [];
  return used.map(({ coordinate }) => coordinate).join();
}

function toOutcome({ hasData, hasErrors, failures }: OperationResponse, isCancelled: boolean): string {
  if (hasData && !hasErrors) return 'ok';
  if (failures.some(({ status }) => status >= 500)) return isCancelled ? 'cancelled' : 'failed';
  return hasData ? 'error' : 'refused';
}
