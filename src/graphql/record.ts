import { outcomeOf, type UsageCounter } from '../access/usage.js';
import type { StoreError } from '../errors.js';
import type { LoggedFields } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';
import type { Metrics } from '../observability/metrics.js';
import type { ExecutedOperation, OperationResponse } from './types.js';

const UNKNOWN = 'unknown';
const MAX_NAME = 100;

/**
 * Creates what records the answers in the metrics and the usage of the key.
 * @param usage - absent where another store counts
 */
export function createRecorder(usage: UsageCounter | undefined, metrics: Metrics) {
  return {
    /** Returns what to log. @param seconds - how long the operations of the request took together */
    record(answers: readonly ExecutedOperation[], seconds: number, http: HttpRequest, keyId?: string): LoggedFields {
      const names: string[] = [];
      const untrusted: string[] = [];
      let isDeprecated = false;
      let allCost = 0;
      for (const answer of answers) {
        const { prepared, priced, response } = answer;
        const { name, type = UNKNOWN } = prepared?.operation ?? {};
        const isTrusted = !prepared || answer.isTrusted;
        const used = response.hasData && !priced?.isDryRun ? (prepared?.compiled.deprecations ?? []) : [];
        const { charge: cost = 0 } = priced ?? {};
        const shown = name === undefined ? type : http.redact(name).slice(0, MAX_NAME);
        metrics.observeOperation(type, toOutcome(response, http.isCancelled), seconds, isTrusted ? name : undefined);
        if (usage && keyId !== undefined) {
          usage.count({
            keyId,
            client: http.clientName,
            operation: shown,
            deprecated: used.map(({ coordinate }) => coordinate).join(),
            cost,
            outcome: outcomeOf(!response.hasData || response.failures.length > 0, response.failures),
          });
        }
        names.push(shown);
        if (answer.untrusted !== undefined) untrusted.push(answer.untrusted);
        if (used.length > 0) isDeprecated = true;
        allCost += cost;
      }
      return {
        cost: allCost,
        operations: names.join(),
        deprecated: isDeprecated || undefined,
        untrusted: untrusted.join(' ') || undefined,
        client: isDeprecated || untrusted.length > 0 ? http.clientName : undefined,
      };
    },
    /** Records a request that was refused before its operations were known. */
    recordRefusal(error: StoreError, { clientName: client }: HttpRequest, keyId?: string): void {
      if (!usage || keyId === undefined) return;
      usage.count({ keyId, client, operation: UNKNOWN, deprecated: '', cost: 0, outcome: outcomeOf(true, [error]) });
    },
  };
}

function toOutcome({ hasData, failures }: OperationResponse, isCancelled: boolean): string {
  if (hasData && failures.length === 0) return 'ok';
  if (failures.some(({ status }) => status >= 500)) return isCancelled ? 'cancelled' : 'failed';
  return hasData ? 'error' : 'refused';
}
