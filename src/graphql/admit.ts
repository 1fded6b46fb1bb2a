import type { MaybePromise } from '../access/maybe-promise.js';
import type { CompiledOperation } from './compiled/compile.js';
import { prepareOperation, type PreparedOperation } from './compiled/run.js';
import type { OperationContext } from './context.js';
import type { Deprecation } from './deprecations.js';

/** What admission needs to know of an operation. */
export interface OperationToAdmit {
  readonly type: OperationContext['report']['type'];
  readonly name: string | undefined;
  readonly deprecations: readonly Deprecation[];
}

/**
 * Admits an operation when its turn has come, and writes down what will be said of it.
 * @throws StoreError when it is refused
 */
export function admitOperation(
  operation: OperationToAdmit,
  cost: number,
  { visit, turn, report }: OperationContext,
): MaybePromise<void> {
  report.type = operation.type;
  report.name = operation.name;
  report.deprecations = operation.deprecations;
  if (cost > 0 && visit.keyId === undefined) return Promise.resolve(visit.requireKey()).then(enter);
  return enter();

  function enter(): MaybePromise<void> {
    const admitted = turn.admit(cost);
    if (admitted instanceof Promise) return admitted.then(charge);
    charge();
  }

  function charge(): void {
    report.cost = cost;
  }
}

/**
 * Prepares a compiled operation and has it admitted.
 * @returns undefined when its variables are for graphql-js to judge; nothing has been admitted then
 * @throws StoreError when it is refused
 */
export function admitCompiled(
  operation: CompiledOperation,
  variables: Readonly<Record<string, unknown>> | undefined,
  context: OperationContext,
): MaybePromise<PreparedOperation | undefined> {
  const values = operation.variables.coerce(variables ?? NO_VARIABLES);
  if (values === undefined) return undefined;
  const prepared = prepareOperation(operation, values);
  const admitted = admitOperation(operation, prepared.cost, context);
  return admitted instanceof Promise ? admitted.then(() => prepared) : prepared;
}

const NO_VARIABLES = {};
