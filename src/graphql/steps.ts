import type { MaybePromise } from '../access/maybe-promise.js';
import type { Prepared } from './prepare.js';
import { Refusal } from './refusal.js';

type Step<In, Out> = (operation: In, index: number) => MaybePromise<Out | Refusal>;

/** Takes all operations of a request through a step at the same time. */
export function mapConcurrently<In, Out>(
  operations: readonly (In | Refusal)[],
  step: Step<In, Out>,
): Promise<(Out | Refusal)[]> {
  return Promise.all(operations.map((operation, index) => runStep(operation, index, step)));
}

/** Takes the operations of a request through a step one after the other. */
export async function mapInOrder<In, Out>(
  operations: readonly (In | Refusal)[],
  step: Step<In, Out>,
): Promise<(Out | Refusal)[]> {
  const results: (Out | Refusal)[] = [];
  for (const [index, operation] of operations.entries()) results.push(await runStep(operation, index, step));
  return results;
}

async function runStep<In, Out>(operation: In | Refusal, index: number, step: Step<In, Out>): Promise<Out | Refusal> {
  if (operation instanceof Refusal) return operation;
  try {
    return await step(operation, index);
  } catch (thrown) {
    return Refusal.of(thrown, (operation as Partial<Prepared>).operation);
  }
}
