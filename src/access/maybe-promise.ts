/** A value, or a promise of it. A value that is already available costs no turn of the promise queue. */
export type MaybePromise<T> = T | Promise<T>;
