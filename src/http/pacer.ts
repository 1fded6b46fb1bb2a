/**
 * Creates a function whose promises are fulfilled one by one for each caller, in order, with a time between two, in
 * milliseconds. One that `isOver` takes no time from the others.
 */
export function createPacer(betweenMs: number): (caller: string, isOver: () => boolean) => Promise<void> {
  const lines = new Map<string, { readonly resolve: () => void; readonly isOver: () => boolean }[]>();
  const callNext = (caller: string): void => {
    const line = lines.get(caller) ?? [];
    let next;
    do {
      next = line.shift();
      next?.resolve();
    } while (next?.isOver());
    if (next) setTimeout(callNext, betweenMs, caller);
    else lines.delete(caller);
  };
  return (caller, isOver) =>
    new Promise((resolve) => {
      const line = lines.get(caller);
      if (line) {
        line.push({ resolve, isOver });
        return;
      }
      lines.set(caller, []);
      setTimeout(callNext, betweenMs, caller);
      resolve();
    });
}
