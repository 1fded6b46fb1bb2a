/**
 * Creates a function whose promises are fulfilled one by one, in order, with a time before each, in milliseconds. One
 * that `isOver` takes no time from the others.
 */
export function createPacer(betweenMs: number): (isOver: () => boolean) => Promise<void> {
  const line: { readonly resolve: () => void; readonly isOver: () => boolean }[] = [];
  let timer: NodeJS.Timeout | undefined;
  const callNext = (): void => {
    let next;
    do {
      next = line.shift();
      next?.resolve();
    } while (next?.isOver());
    timer = line.length > 0 ? setTimeout(callNext, betweenMs) : undefined;
  };
  return (isOver) =>
    new Promise((resolve) => {
      line.push({ resolve, isOver });
      timer ??= setTimeout(callNext, betweenMs);
    });
}
