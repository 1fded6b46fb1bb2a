import type { MaybePromise } from '../access/maybe-promise.js';
import type { RequestContext } from '../http/request-context.js';
import type { Prepared } from './prepare.js';
import { Refusal } from './refusal.js';

type Step<In, Out> = (operation: In, index: number) => MaybePromise<Out | Refusal>;

/** Takes all operations of a request through a step at the same time. */
export async function mapConcurrently<In, Out>(
  operations: readonly (In | Refusal)[],
  step: Step<In, Out>,
): Promise<(Out | Refusal)[]> {
  const started = operations.map((operation, index) => runStep(operation, index, step));
  const results: (Out | Refusal)[] = [];
  for (const result of started) results.push(result instanceof Promise ? await result : result);
  return results;
}

/** After this time, in milliseconds, a batch gives way to other requests. */
const TURN_MS = 5;

/** Takes the operations of a request through a step one after the other. */
export async function mapInOrder<In, Out>(
  operations: readonly (In | Refusal)[],
  { takeTurn }: RequestContext,
  step: Step<In, Out>,
): Promise<(Out | Refusal)[]> {
  const results: (Out | Refusal)[] = [];
  let turnEnd = performance.now() + TURN_MS;
  for (const [index, operation] of operations.entries()) {
    if (index > 0 && performance.now() > turnEnd) {
      await takeTurn(true);
      turnEnd = performance.now() + TURN_MS;
    }
    const result = runStep(operation, index, step);
    results.push(result instanceof Promise ? await result : result);
  }
  return results;
}

/** Runs a step, and turns what it throws into a refusal. Returns a promise only if the step does: most need not wait. */
function runStep<In, Out>(operation: In | Refusal, index: number, step: Step<In, Out>): MaybePromise<Out | Refusal> {
  if (operation instanceof Refusal) return operation;
  const refuse = (thrown: unknown): Refusal => Refusal.of(thrown, (operation as Partial<Prepared>).operation);
  try {
    const result = step(operation, index);
    return result instanceof Promise ? result.catch(refuse) : result;
  } catch (thrown) {
    return refuse(thrown);
  }
}
