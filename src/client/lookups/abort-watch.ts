/** Watches signals for many calls at once. */
export interface AbortWatch {
  /**
   * Is told when the signal is aborted.
   * @returns how to stop watching
   */
  watch(signal: AbortSignal, onAbort: () => void): () => void;
}

/** Makes a watch with one listener for each signal: Node warns of a leak when a signal has more than ten. */
export function createAbortWatch(): AbortWatch {
  const watched = new Map<AbortSignal, Set<() => void>>();

  return {
    watch(signal, onAbort) {
      const callbacks = watched.get(signal) ?? begin(signal);
      // Each watch is one of its own, even by the same function.
      const callback = (): void => onAbort();
      callbacks.add(callback);
      return () => {
        if (!callbacks.delete(callback) || callbacks.size > 0) return;
        signal.removeEventListener('abort', onSignal);
        watched.delete(signal);
      };
    },
  };

  function begin(signal: AbortSignal): Set<() => void> {
    const callbacks = new Set<() => void>();
    watched.set(signal, callbacks);
    signal.addEventListener('abort', onSignal);
    return callbacks;
  }

  function onSignal(event: Event): void {
    const signal = event.target as AbortSignal;
    const callbacks = [...(watched.get(signal) ?? [])];
    for (const callback of callbacks) callback();
  }
}
