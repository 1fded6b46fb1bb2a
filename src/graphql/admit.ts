import type { CompiledOperation } from './compiled/compile.js';
import { prepareOperation, type PreparedOperation } from './compiled/run.js';
import type { OperationContext } from './context.js';
import type { Deprecation } from './deprecations.js';

/** What admission needs to know of an operation. */
export interface OperationToAdmit {
  readonly type: OperationContext['report']['type'];
  readonly name: string | undefined;
  /** Requests that it would take over REST. */
  readonly cost: number;
  readonly deprecations: readonly Deprecation[];
}

/**
 * Admits an operation when its turn has come, and writes down what will be said of it.
 * @throws StoreError when it is refused
 */
export async function admitOperation(
  operation: OperationToAdmit,
  { visit, turn, report }: OperationContext,
): Promise<void> {
  report.type = operation.type;
  report.name = operation.name;
  report.deprecations = operation.deprecations;
  if (operation.cost > 0 && visit.keyId === undefined) await visit.requireKey();
  await turn.admit(operation.cost);
  report.cost = operation.cost;
}

/**
 * Prepares a compiled operation and has it admitted.
 * @returns undefined when its variables are for graphql-js to judge; nothing has been admitted then
 * @throws StoreError when it is refused
 */
export async function admitCompiled(
  operation: CompiledOperation,
  variables: Readonly<Record<string, unknown>> | undefined,
  context: OperationContext,
): Promise<PreparedOperation | undefined> {
  const coerced = operation.coerceVariables(variables ?? {});
  if (coerced === undefined) return undefined;
  const prepared = prepareOperation(operation, coerced);
  await admitOperation({ ...operation, cost: prepared.cost }, context);
  return prepared;
}
