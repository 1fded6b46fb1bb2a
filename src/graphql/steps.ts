import type { MaybePromise } from '../access/maybe-promise.js';
import type { Prepared } from './prepare.js';
import { Refusal } from './refusal.js';

type Step<In, Out> = (operation: In, index: number) => MaybePromise<Out | Refusal>;

/** Takes all operations of a request through a step at the same time. Waits only if an operation has to. */
export function together<In, Out>(
  operations: readonly (In | Refusal)[],
  step: Step<In, Out>,
): MaybePromise<(Out | Refusal)[]> {
  const results = operations.map((operation, index) => take(operation, index, step));
  return results.some((result) => result instanceof Promise)
    ? Promise.all(results as Promise<Out | Refusal>[])
    : (results as (Out | Refusal)[]);
}

/** Takes the operations of a request through a step one after the other. */
export async function inOrder<In, Out>(
  operations: readonly (In | Refusal)[],
  step: Step<In, Out>,
): Promise<(Out | Refusal)[]> {
  const results: (Out | Refusal)[] = [];
  for (const [index, operation] of operations.entries()) {
    const taken = take(operation, index, step);
    results.push(taken instanceof Promise ? await taken : taken);
  }
  return results;
}

function take<In, Out>(operation: In | Refusal, index: number, step: Step<In, Out>): MaybePromise<Out | Refusal> {
  if (operation instanceof Refusal) return operation;
  const refuse = (thrown: unknown): Refusal => Refusal.of(thrown, (operation as Partial<Prepared>).operation);
  try {
    const taken = step(operation, index);
    return taken instanceof Promise ? taken.catch(refuse) : taken;
  } catch (thrown) {
    return refuse(thrown);
  }
}
