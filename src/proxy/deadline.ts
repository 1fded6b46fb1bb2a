import { CallCancelled, type Call } from '../pets/pet-source.js';
import { timedOut } from './wire.js';

export type Deadline = ReturnType<typeof createDeadline>;

/**
 * When a call stops waiting for its requests: at its time limit, or when its client disconnects.
 * @param timeoutMs - time for the call, counted from its start
 */
export function createDeadline(call: Call, timeoutMs: number) {
  const endsAt = call.startedAt + timeoutMs;
  let pass!: () => void;
  const passed = new Promise<undefined>((resolve) => (pass = () => resolve(undefined)));
  const timer = setTimeout(pass, Math.ceil(endsAt - performance.now()));
  call.onCancel(pass);
  /** Whether at least this much time is left. */
  const leaves = (milliseconds: number): boolean => performance.now() + milliseconds < endsAt;

  return {
    passed,
    leaves,
    /** Why the call stops waiting; undefined while there is time. */
    findReason: () => (call.isCancelled ? new CallCancelled() : leaves(0) ? undefined : timedOut()),
    /** Removes the timer and the listener. Call it when the call no longer waits. */
    close() {
      clearTimeout(timer);
      call.offCancel(pass);
    },
  };
}
