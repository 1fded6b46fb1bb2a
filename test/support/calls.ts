import { setMaxListeners } from 'node:events';
import type { UpstreamKey } from '../../src/access/session.js';
import { createCall, type Call } from '../../src/pets/pet-source.js';

/** Creates a call that is cancelled when the signal is aborted. */
export function createCancellableCall(signal: AbortSignal): Call {
  setMaxListeners(0, signal);
  return {
    ...createCall('test'),
    get isCancelled() {
      return signal.aborted;
    },
    onCancel: (listener) => signal.addEventListener('abort', listener),
    offCancel: (listener) => signal.removeEventListener('abort', listener),
  };
}

/** Creates a key whose limits do not matter. */
export function createUpstreamKey(id: string, authorization = ''): UpstreamKey {
  return {
    id,
    authorization,
    isUnknown: false,
    start: () => undefined,
    finish: () => undefined,
    findRefusal: () => undefined,
    isExhausted: false,
    learn: () => undefined,
  };
}
