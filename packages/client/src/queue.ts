import { isStoreErrorCode, STORE_ERRORS } from './errors.js';
import type { PetClientOptions } from './client.js';
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

/** Tasks for the same field. */
type Group = readonly Task[];

/** The server's default. The client halves this if a server takes fewer. */
const MAX_LOOKUPS = 100;
const MAX_REPEATS = 6;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** Each wait is extended by up to this, at random, so that many clients do not come back at once. */
const JITTER_MS = 250;

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
  let maxLookups = MAX_LOOKUPS;
  /** Unless it is 0, the client sends one request at a time. It starts so, to learn the windows. */
  let failuresInARow = 1;
  /** By `performance.now()`. */
  let pausedUntil = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;

  return async (fields, signal) => {
    signal?.throwIfAborted();
    const deadline = performance.now() + maxWaitMs;
    const results = fields.map(
      (field) => new Promise((settle) => queue.push({ field, settle, signal, deadline, repeats: 0 })),
    );
    nextTick(sendQueued);
    if (!signal) return Promise.all(results);
    // Node warns of a leak if many calls add listeners to the same signal.
    const own = AbortSignal.any([signal]);
    return new Promise((resolve, reject) => {
      own.onabort = () => {
        reject(signal.reason as Error);
        for (const cancel of cancels) cancel();
        sendQueued();
      };
      void Promise.all(results).then(resolve);
    });
  };

  /** Sends what may be sent now. A response or a timer continues with the rest. */
  function sendQueued(): void {
    clearTimeout(timer);
    queue = queue.filter(isWanted);
    while (queue.length > 0 && cancels.size < (failuresInARow > 0 ? 1 : concurrency)) {
      if (performance.now() < pausedUntil) return waitUntil(pausedUntil);
      const groups = nextGroups();
      const now = Date.now();
      const left = windows.map(({ limit, remaining, resetAt }) => (resetAt > now ? remaining : limit));
      const room = Math.min(...left) - costInFlight;
      // The responses in flight may show more room, and one full request is better than two.
      if (room < groups.length && cancels.size > 0) return;
      if (room < 1) {
        const waitMs = Math.max(...windows.map(({ remaining, resetAt }) => (remaining > 0 ? 0 : resetAt - now)));
        return waitUntil(performance.now() + waitMs + Math.random() * JITTER_MS);
      }
      void sendGroups(groups.slice(0, room));
    }
  }

  /** @returns the fields that can share the next request; each with the tasks that it answers */
  function nextGroups(): readonly Group[] {
    const kind = queue[0]?.field.kind;
    const size = kind === 'pet' ? Math.min(maxLookups, largestCost()) : 1;
    const groups = new Map<unknown, Task[]>();
    for (const task of queue) {
      if (task.field.kind !== kind) continue;
      const key = kind === 'addPet' ? task : JSON.stringify(task.field);
      const group = groups.get(key);
      if (group) group.push(task);
      else if (groups.size < size) groups.set(key, [task]);
      else break;
    }
    return [...groups.values()];
  }

  /** The most that one operation can cost; Infinity if unknown. */
  function largestCost(): number {
    return Math.max(1, Math.min(...windows.map(({ limit }) => limit)));
  }

  /** Continues at a time, by `performance.now()`. Tasks that may not wait so long fail now. */
  function waitUntil(time: number): void {
    const waitMs = time - performance.now();
    const retryAfter = Math.max(1, Math.ceil(waitMs / 1_000));
    const message = `The client may send nothing for ${retryAfter} s, and maxWaitMs is ${maxWaitMs} ms.`;
    const refusal = { code: 'RATE_LIMITED', message, retryAfter, requestId: '' } as const;
    queue = queue.filter(({ deadline, failure, settle }) => {
      if (deadline < time) settle(failure ?? createPetError(refusal));
      return deadline >= time;
    });
    if (queue.length > 0) timer = setTimeout(sendQueued, waitMs);
  }

  async function sendGroups(groups: readonly Group[]): Promise<void> {
    const sent = new Set(groups.flat());
    const controller = new AbortController();
    const cancel = (): void => {
      if (![...sent].some(isWanted)) controller.abort();
    };
    queue = queue.filter((task) => !sent.has(task));
    cancels.add(cancel);
    costInFlight += groups.length;
    const answer = await send(
      groups.map(([task]) => (task as Task).field),
      controller,
    );
    cancels.delete(cancel);
    costInFlight -= groups.length;
    if ([...sent].some(isWanted)) readAnswer(groups, answer);
    sendQueued();
  }

  function readAnswer(groups: readonly Group[], { results, isTooLarge, headers }: Answer): void {
    const known = windows;
    windows = updateWindows(known, headers);
    if (windows !== known) onLimit?.(windows);
    if (isTooLarge && groups.length > 1) {
      // If the windows, just learned, explain the refusal, the store may take as many lookups as before.
      if (largestCost() >= groups.length) maxLookups = Math.min(maxLookups, Math.ceil(groups.length / 2));
      queue = [...groups.flat(), ...queue];
      return;
    }
    const [refusal] = results;
    // What is queued would fail in the same way.
    if (isPetError(refusal) && refusal.code === 'UNAUTHENTICATED')
      for (const task of queue.splice(0)) task.settle(refusal);
    let statedMs = 0;
    const failed: Task[] = [];
    for (const [index, group] of groups.entries()) {
      const result = results[index];
      for (const task of group) {
        if (!isRepeatable(result, task)) {
          task.settle(result);
          continue;
        }
        task.failure = result;
        const { retryAfter } = result as { readonly retryAfter?: number };
        if (retryAfter === undefined) task.repeats += 1;
        statedMs = Math.max(statedMs, (retryAfter ?? 0) * 1_000);
        failed.push(task);
      }
    }
    failuresInARow = failed.length > 0 ? failuresInARow + 1 : 0;
    if (failed.length === 0) return;
    // The pause grows after each failure, in case the store states 0 or nothing.
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failuresInARow - 1));
    pausedUntil = performance.now() + Math.max(statedMs, pauseMs) + Math.random() * JITTER_MS;
    queue = [...failed, ...queue];
  }
}

function isWanted({ signal }: Task): boolean {
  return !signal?.aborted;
}

/** Whether another attempt may succeed. An `addPet` without an idempotency key could add the animal twice. */
function isRepeatable(result: unknown, { field, repeats }: Task): result is PetError {
  if (!isPetError(result) || (field.kind === 'addPet' && !field.idempotencyKey)) return false;
  const { code } = result;
  if (!isStoreErrorCode(code)) return repeats < MAX_REPEATS && /^(CONNECTION_FAILED|TIMED_OUT)$/.test(code);
  const { repeat } = STORE_ERRORS[code];
  return repeat === 'after-wait' || (repeat === 'with-backoff' && repeats < MAX_REPEATS);
}
