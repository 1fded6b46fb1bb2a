import { useEffect, useReducer } from 'react';

/** Returns the time in milliseconds since the epoch, and renders again every second while `isRunning`. */
export function useNow(isRunning: boolean): number {
  const [, renderAgain] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(renderAgain, 1_000);
    return () => clearInterval(timer);
  }, [isRunning]);
  return Date.now();
}
