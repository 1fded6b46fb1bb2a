/** The wall clock when the process started. */
const ORIGIN = performance.timeOrigin;

/**
 * Returns the time in milliseconds since the epoch, by the wall clock as it was when the process started. It only moves
 * forward: a step of the wall clock neither lengthens nor shortens anything that is measured with it.
 */
export function monotonicNow(): number {
  return ORIGIN + performance.now();
}

/** Converts a time of `monotonicNow` to the wall clock as it is now, for clients and files. */
export function toWallTime(time: number): number {
  return time + stepsOfWallClock();
}

/** Converts a time of the wall clock to one of `monotonicNow`. */
export function fromWallTime(time: number): number {
  return time - stepsOfWallClock();
}

/** Converts a time of `monotonicNow` to Unix seconds, rounded up so that clients do not retry too early. */
export function toUnixSeconds(time: number): number {
  return Math.ceil(toWallTime(time) / 1_000);
}

/** In whole seconds, so that a time converted twice stays the same. */
function stepsOfWallClock(): number {
  return Math.round((Date.now() - monotonicNow()) / 1_000) * 1_000;
}

/**
 * Calls a function after a time, in milliseconds. If the event loop was busy until then, it first reads what has arrived
 * in the meantime, so that an answer in time does not count as late.
 * @returns the function that prevents the call
 */
export function callAfter(ms: number, run: () => void): () => void {
  let immediate: NodeJS.Immediate | undefined;
  const timer = setTimeout(() => (immediate = setImmediate(run)), ms);
  return () => {
    clearTimeout(timer);
    clearImmediate(immediate);
  };
}
