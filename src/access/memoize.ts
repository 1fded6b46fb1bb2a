/** How long a text and its result are kept, in milliseconds: keys are among them, and have no business in memory later. */
const KEPT_MS = 5_000;
const MAX_TEXTS = 10_000;
/** Longer texts are no keys of a store, and would cost memory. */
const MAX_LENGTH = 256;

/**
 * Remembers for some seconds what a function made of a text: the same few keys come over and over, and hashing one costs
 * more than all the rest of looking it up.
 * @param read - gives the same for the same text, whenever it is asked
 */
export function memoize<T>(read: (text: string) => T): (text: string) => T {
  const known = new Map<string, T>();
  let timer: NodeJS.Timeout | undefined;
  const forget = (): void => {
    clearTimeout(timer);
    timer = undefined;
    known.clear();
  };
  return (text) => {
    let result = known.get(text);
    if (result === undefined) {
      result = read(text);
      if (text.length <= MAX_LENGTH) {
        known.set(text, result);
        timer ??= setTimeout(forget, KEPT_MS).unref();
        if (known.size === MAX_TEXTS) forget();
      }
    }
    return result;
  };
}
