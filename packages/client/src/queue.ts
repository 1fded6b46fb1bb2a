import type { PetClientOptions } from './client.js';
import { isStoreErrorCode, STORE_ERRORS } from './errors.js';
import { updateWindows, type LimitWindow } from './limits.js';
import { createPetError, isPetError, type PetError } from './pet-error.js';
import type { Answer, Field } from './request.js';

/** @returns a value or a PetError for each field, in order; rejects only with the reason of the signal */
export type Run = (fields: readonly Field[], signal: AbortSignal | undefined) => Promise<unknown[]>;

/** A field that is queued or sent. */
interface Task {
  readonly field: Field;
  readonly settle: (result: unknown) => void;
  readonly signal: AbortSignal | undefined;
  /** When it may no longer wait, by `performance.now()`. */
  readonly deadline: number;
  /** Repeats after failures that state no time to wait. */
  repeats: number;
  /** Why the last attempt failed. */
  failure?: PetError;
}

const MAX_REPEATS = 6;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** Each wait is extended by up to this, at random, so that many clients do not come back at once. */
const JITTER_MS = 250;
/** A longer timer would end at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Runs a function after the promise callbacks of this tick. `setImmediate` is faster, but only some runtimes have it. */
const nextTick: (run: () => void) => unknown =
  (globalThis as { setImmediate?: (run: () => void) => unknown }).setImmediate ?? ((run) => setTimeout(run, 0));

/** Creates a queue that sends the lookups of one tick together, and everything else alone. */
export function createQueue(
  send: (fields: readonly Field[], controller: AbortController) => Promise<Answer>,
  { concurrency, maxWaitMs, onLimit }: Required<Pick<PetClientOptions, 'concurrency' | 'maxWaitMs'>> & PetClientOptions,
): Run {
  let queue: Task[] = [];
  let windows: readonly LimitWindow[] = [];
  /** For each request in flight, a function that cancels it if no caller waits for it. */
  const cancels = new Set<() => void>();
  let costInFlight = 0;
  /** The server's default. The client halves this if a server takes fewer. */
  let maxLookups = 100;
  /** Unless it is 0, the client sends one request at a time. It starts so, to learn the windows. */
  let failuresInARow = 1;
  /** By `performance.now()`. */
  let pausedUntil = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;

  return async (fields, signal) => {
    signal?.throwIfAborted();
    const deadline = performance.now() + maxWaitMs;
    const results = Promise.all(
      fields.map((field) => new Promise((settle) => queue.push({ field, settle, signal, deadline, repeats: 0 }))),
    );
    nextTick(sendQueued);
    if (!signal) return results;
    // Node warns of a leak if many calls add listeners to the same signal. Some edge runtimes lack `any`.
    const own = (AbortSignal as Partial<typeof AbortSignal>).any?.([signal]) ?? signal;
    let stopListening = (): void => undefined;
    const aborted = new Promise<never>((_, reject) => {
      const listener = (): void => reject(signal.reason as Error);
      own.addEventListener('abort', listener);
      stopListening = () => own.removeEventListener('abort', listener);
    });
    return Promise.race([results, aborted]).finally(() => {
      // The signal may live as long as the program.
      stopListening();
      if (!signal.aborted) return;
      for (const cancel of cancels) cancel();
      sendQueued();
    });
  };

  /** Sends what may be sent now. A response or a timer continues with the rest. */
  function sendQueued(): void {
    clearTimeout(timer);
    queue = queue.filter(isWanted);
    for (let first = queue[0]; first && cancels.size < (failuresInARow > 0 ? 1 : concurrency); first = queue[0]) {
      if (performance.now() < pausedUntil) return waitUntil(pausedUntil);
      const { kind } = first.field;
      const size = kind === 'pet' ? Math.min(maxLookups, largestCost()) : 1;
      const tasks = queue.filter(({ field }) => field.kind === kind).slice(0, size);
      const now = Date.now();
      const left = windows.map(({ limit, remaining, resetAt }) => (resetAt > now ? remaining : limit));
      const room = Math.min(...left) - costInFlight;
      // The responses in flight may show more room, and one full request is better than two.
      if (room < tasks.length && cancels.size > 0) return;
      if (room >= 1) void sendTasks(new Set(tasks.slice(0, room)));
      else {
        const waitMs = Math.max(...windows.map(({ remaining, resetAt }) => (remaining > 0 ? 0 : resetAt - now)));
        return waitUntil(performance.now() + waitMs + Math.random() * JITTER_MS);
      }
    }
  }

  /** The most that one operation can cost; Infinity if unknown. */
  function largestCost(): number {
    return Math.max(1, Math.min(...windows.map(({ limit }) => limit)));
  }

  /** Continues at a time, by `performance.now()`. Tasks that may not wait so long fail now. */
  function waitUntil(time: number): void {
    const retryAfter = Math.max(1, Math.ceil((time - performance.now()) / 1_000));
    const message = `The client may send nothing for ${retryAfter} s, and maxWaitMs is ${maxWaitMs}.`;
    const refusal = createPetError({ code: 'RATE_LIMITED', message, retryAfter, requestId: '' });
    for (const { deadline, failure, settle } of queue) if (deadline < time) settle(failure ?? refusal);
    queue = queue.filter(({ deadline }) => deadline >= time);
    if (queue.length > 0) timer = setTimeout(sendQueued, Math.min(time - performance.now(), LONGEST_TIMER_MS));
  }

  async function sendTasks(sent: ReadonlySet<Task>): Promise<void> {
    const tasks = [...sent];
    const controller = new AbortController();
    const cancel = (): void => (tasks.some(isWanted) ? undefined : controller.abort());
    queue = queue.filter((task) => !sent.has(task));
    cancels.add(cancel);
    costInFlight += tasks.length;
    const fields = tasks.map(({ field }) => field);
    const answer = await send(fields, controller);
    cancels.delete(cancel);
    costInFlight -= tasks.length;
    if (tasks.some(isWanted)) readAnswer(tasks, answer);
    sendQueued();
  }

  function readAnswer(tasks: readonly Task[], { results, isTooLarge, headers }: Answer): void {
    const [first] = results;
    const isRefusedKey = isPetError(first) && first.code === 'UNAUTHENTICATED';
    const known = windows;
    // Without a valid key, the headers are about the address.
    if (!isRefusedKey) windows = updateWindows(known, headers);
    // What it throws must not keep the callers from their results.
    if (onLimit && windows !== known) queueMicrotask(() => onLimit(windows));
    if (isTooLarge && tasks.length > 1) {
      // If the windows, just learned, explain the refusal, the store may take as many lookups as before.
      if (largestCost() >= tasks.length) maxLookups = Math.min(maxLookups, Math.ceil(tasks.length / 2));
      queue.unshift(...tasks);
      return;
    }
    // What is queued would fail in the same way.
    if (isRefusedKey) for (const { settle } of queue.splice(0)) settle(first);
    let retryMs = 0;
    const failed = tasks.filter((task, index) => {
      const result = results[index];
      if (!isRepeatable(result, task)) {
        task.settle(result);
        return false;
      }
      const { retryAfter } = result as { readonly retryAfter?: number };
      if (retryAfter === undefined) task.repeats += 1;
      else retryMs = Math.max(retryMs, retryAfter * 1_000);
      return (task.failure = result);
    });
    // A single animal may fail for good. Only a request without any value tells that the store is in trouble.
    const hasFailed = failed.length === tasks.length;
    failuresInARow = hasFailed ? failuresInARow + 1 : 0;
    if (failed.length === 0) return;
    // The pause grows after each failure, in case the store states 0 or nothing.
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.max(0, failuresInARow - 1));
    pausedUntil = performance.now() + Math.max(retryMs, pauseMs) + Math.random() * JITTER_MS;
    queue = hasFailed ? [...failed, ...queue] : [...queue, ...failed];
  }
}

function isWanted({ signal }: Task): boolean {
  return !signal?.aborted;
}

/** Whether another attempt may succeed. An `addPet` without an idempotency key could add the animal twice. */
function isRepeatable(result: unknown, { field, repeats }: Task): result is PetError {
  if (!isPetError(result) || (field.kind === 'addPet' && !field.idempotencyKey)) return false;
  const { code } = result;
  if (isStoreErrorCode(code) && STORE_ERRORS[code].repeat !== 'with-backoff') return STORE_ERRORS[code].repeat !== 'no';
  return repeats < MAX_REPEATS && !['UNRECOGNIZED', 'BEYOND_LISTS'].includes(code);
}
