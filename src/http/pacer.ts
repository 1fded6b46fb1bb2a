interface Waiter {
  readonly resolve: () => void;
  readonly isOver: () => boolean;
}

/**
 * Creates a function whose promises are fulfilled one by one, in order, with a time between two and before the first.
 * Those that wait for something that is over by then take no time from the others.
 * @param betweenMs - in milliseconds
 */
export function createPacer(betweenMs: number): (isOver: () => boolean) => Promise<void> {
  const line: Waiter[] = [];
  let timer: NodeJS.Timeout | undefined;
  const callNext = (): void => {
    let next: Waiter | undefined;
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
