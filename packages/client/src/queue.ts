import type { PetClientOptions } from './client.js';
import { isStoreErrorCode, STORE_ERRORS } from './errors.js';
import { updateWindows, type LimitWindow } from './limits.js';
import { createPetError, isPetError, toFinalError, type PetError } from './pet-error.js';
import type { Field, Reply } from './request.js';

/** @returns a value or a PetError for each field, in order; rejects only with the reason of the signal */
export type Run = (fields: readonly Field[], signal: AbortSignal | undefined) => Promise<unknown[]>;

/** A field that is queued or sent. */
interface Task {
  readonly field: Field;
  readonly settle: (result: unknown) => void;
  readonly signal: AbortSignal | undefined;
  /** Repeats after failures that state no time to wait. */
  repeats: number;
  /** The sum of its waits, with all of the present one. */
  waitMs: number;
  /** The end of its last wait, by `performance.now()`. */
  waitsUntil: number;
}

/** Until when the client sends nothing, by `performance.now()`, and why. */
interface Pause {
  readonly until: number;
  readonly reason: PetError;
}

const MAX_REPEATS = 6;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
/** Each wait is extended by up to this, at random, so that many clients do not come back at once. */
const JITTER_MS = 250;
/** Requests in flight that fail at about the same time cause one wait. */
const SAME_WAIT_MS = 1_000;
/** How often one request tries whether a wait still holds: a limit may have been raised, or the store repaired. */
const TRIAL_MS = 60_000;

const NOTHING_LEFT = createPetError({
  code: 'RATE_LIMITED',
  message: 'The key has no requests left.',
  retryAfter: 1,
  requestId: '',
});

/** Runs a function after the promise callbacks of this tick. `setImmediate` is faster, but only some runtimes have it. */
const nextTick: (run: () => void) => unknown =
  (globalThis as { setImmediate?: (run: () => void) => unknown }).setImmediate ?? setTimeout;

/** Creates a queue that sends the fields of one group together, and everything else alone. */
export function createQueue(
  send: (fields: readonly Field[], controller: AbortController) => Promise<Reply>,
  options: Required<Pick<PetClientOptions, 'concurrency' | 'maxWaitMs' | 'idempotencyKeys'>> & PetClientOptions,
): Run {
  const { concurrency, maxWaitMs, idempotencyKeys, onLimit, onWait } = options;
  let queue: Task[] = [];
  let windows: readonly LimitWindow[] = [];
  let pause: Pause | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** The end of the last wait that `onWait` was told, by `performance.now()`. */
  let toldUntil = 0;
  const inFlight = new Map<AbortController, readonly Task[]>();
  /** When the last request ended that the key pays for, by `performance.now()`. */
  let answeredAt = 0;
  /** The calls that each signal ends. It has one listener, because Node warns of a leak if there are many. */
  const calls = new WeakMap<object, Set<() => void>>();
  const endCalls = ({ target }: Event): void => calls.get(target as object)?.forEach((end) => end());
  /** The server's default. The client halves this if a server takes fewer. */
  let maxFields = 100;
  /** Unless it is 0, the client sends one request at a time. It starts so, to learn the windows. */
  let failuresInARow = 1;

  return (fields, signal) =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const abort = (): void => {
        reject(signal?.reason as Error);
        for (const [controller, tasks] of inFlight) if (!tasks.some(isWanted)) controller.abort();
        sendQueued();
      };
      const stop = signal && listen(signal, abort);
      const results = fields.map(
        (field) =>
          new Promise((settle) => {
            queue.push({ field, settle, signal, repeats: 0, waitMs: 0, waitsUntil: 0 });
          }),
      );
      void Promise.all(results).then((values) => {
        // The signal may live as long as the program.
        stop?.();
        resolve(values);
      });
      nextTick(sendQueued);
    });

  /** @returns a function that ends this */
  function listen(signal: AbortSignal, abort: () => void): () => void {
    const ends = calls.get(signal) ?? new Set();
    calls.set(signal, ends.add(abort));
    signal.addEventListener('abort', endCalls);
    return () => {
      ends.delete(abort);
      if (ends.size === 0) signal.removeEventListener('abort', endCalls);
    };
  }

  /** Sends what may be sent now. A response or a timer continues with the rest. */
  function sendQueued(): void {
    clearTimeout(timer);
    queue = queue.filter(isWanted);
    for (let first = queue[0]; first && inFlight.size < concurrency; first = queue[0]) {
      // A price waits for nothing, because it is free.
      const price = queue.find((task) => !isPaid(task));
      if (price) {
        void sendTasks([price]);
        continue;
      }
      const sent = [...inFlight.values()].flat().filter(isPaid).length;
      if (failuresInARow > 0 && sent > 0) return;
      if (pause && performance.now() < pause.until) {
        if (performance.now() < tryAt(pause)) return wait(pause);
        failuresInARow ||= 1;
        void sendTasks([first], true);
        return;
      }
      const { group } = first.field;
      const size = group === undefined ? 1 : findSize();
      const tasks = queue.filter(({ field }) => field.group === group).slice(0, size);
      const now = Date.now();
      const left = windows.map(({ limit, remaining, resetAt }) => (resetAt > now ? remaining : limit));
      const room = Math.min(...left) - sent;
      // The responses in flight may show more room, and one full request is better than two.
      if (room < tasks.length && sent > 0) return;
      if (room > 0) void sendTasks(tasks.slice(0, room));
      else {
        const waitMs = Math.max(...windows.map(({ remaining, resetAt }) => (remaining > 0 ? now : resetAt))) - now;
        pause = { until: performance.now() + waitMs, reason: NOTHING_LEFT };
      }
    }
  }

  /** The most fields of a request. No operation may cost more than a window holds. */
  function findSize(): number {
    return Math.min(maxFields, ...windows.map(({ limit }) => limit));
  }

  /** The end of a pause, or of a part of it. A request with a banned key could prolong the ban. */
  function tryAt({ until, reason }: Pause): number {
    return reason.code === 'KEY_BANNED' ? until : Math.min(until, answeredAt + TRIAL_MS);
  }

  /** Continues when the pause may end. */
  function wait(current: Pause): void {
    const { until, reason } = current;
    queue = queue.filter((task) => letWait(task, until, reason));
    if (!queue[0]) return;
    const now = performance.now();
    const waitMs = Math.round(until - now);
    timer = setTimeout(sendQueued, tryAt(current) - now + Math.random() * JITTER_MS);
    if (toldUntil > now && until < toldUntil + SAME_WAIT_MS) return;
    toldUntil = until;
    if (onWait) queueMicrotask(() => onWait({ code: reason.code, waitMs }));
  }

  /** @returns false if the task may not wait so long, and has failed */
  function letWait(task: Task, until: number, reason: PetError): boolean {
    const now = performance.now();
    const moreMs = Math.round(until - now);
    const totalMs = task.waitMs + Math.round(until - Math.max(now, task.waitsUntil));
    if (totalMs > maxWaitMs) {
      task.settle(toFinalError(reason, totalMs - moreMs, moreMs, maxWaitMs));
      return false;
    }
    task.waitMs = totalMs;
    task.waitsUntil = until;
    return true;
  }

  /** @param isTrial - whether the response ends the pause */
  async function sendTasks(tasks: readonly Task[], isTrial = false): Promise<void> {
    const sent = new Set(tasks);
    queue = queue.filter((task) => !sent.has(task));
    const controller = new AbortController();
    inFlight.set(controller, tasks);
    const fields = tasks.map(({ field }) => field);
    const reply = await send(fields, controller);
    inFlight.delete(controller);
    if (tasks.some(isWanted)) {
      if (isTrial) {
        pause = undefined;
        // What was known was wrong, unless the store is in trouble.
        if (!reply.results.every(isTemporary)) windows = [];
      }
      readReply(tasks, reply);
    }
    if (tasks.every(isPaid)) answeredAt = performance.now();
    sendQueued();
  }

  function readReply(tasks: readonly Task[], { results, isTooLarge, headers }: Reply): void {
    const [first] = results;
    const isRefusedKey = isPetError(first) && first.code === 'UNAUTHENTICATED';
    const known = windows;
    // Without a valid key, the headers are about the address.
    if (!isRefusedKey) windows = updateWindows(known, headers);
    // What it throws must not keep the callers from their results.
    if (onLimit && windows !== known) queueMicrotask(() => onLimit(windows));
    if (isTooLarge && tasks.length > 1) {
      if (tasks.length <= findSize()) maxFields = Math.ceil(tasks.length / 2);
      queue.unshift(...tasks);
      return;
    }
    // Fewer may fit: what the key has left is known now.
    const left = Math.min(...windows.map(({ remaining }) => remaining));
    const isOverLimit = isPetError(first) && first.code === 'RATE_LIMITED' && results.every((one) => one === first);
    if (isOverLimit && windows !== known && left > 0 && left < tasks.length) {
      queue.unshift(...tasks);
      return;
    }
    // What is queued would fail in the same way.
    if (isRefusedKey) for (const { settle } of queue.splice(0)) settle(first);
    // A price is asked for once, and has a limit of its own.
    if (tasks[0] && !isPaid(tasks[0])) return tasks[0].settle(first);
    // A single animal may fail for good. Only a request without any value tells that the store is in trouble.
    failuresInARow = results.every(isTemporary) ? failuresInARow + 1 : 0;
    // The pause grows after each failure, in case the store states 0 or nothing.
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failuresInARow);
    const now = performance.now();
    const repeated = tasks.filter((task, index) => {
      const result = results[index];
      if (!isTemporary(result)) {
        task.settle(result);
        return false;
      }
      const { retryAfter } = result as { readonly retryAfter?: number };
      const until = now + Math.max((retryAfter ?? 0) * 1_000, pauseMs);
      if (!pause || pause.until < until) pause = { until, reason: result };
      if (retryAfter === undefined) task.repeats += 1;
      // Without idempotency keys, the animal could be added twice.
      const isRepeatable = task.repeats <= MAX_REPEATS && (idempotencyKeys || task.field.kind !== 'addPet');
      if (!isRepeatable) task.settle(toFinalError(result, task.waitMs));
      return isRepeatable && letWait(task, pause.until, result);
    });
    queue.unshift(...repeated);
  }
}

/** A price is free. */
function isPaid({ field }: Task): boolean {
  return !field.body;
}

function isWanted({ signal }: Task): boolean {
  return !signal?.aborted;
}

/** Whether the same request may succeed later. */
function isTemporary(result: unknown): result is PetError {
  if (!isPetError(result)) return false;
  const { code } = result;
  // The store behind the gateway has refused it, has no such function, or is something else.
  if (code === 'UPSTREAM_ERROR' && result.retryAfter === undefined) return (result.error?.status ?? 0) >= 500;
  return isStoreErrorCode(code) ? STORE_ERRORS[code].repeat !== 'no' : code !== 'UNRECOGNIZED';
}
