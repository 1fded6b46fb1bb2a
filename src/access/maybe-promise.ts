/** A value that is there already, or will be. What is there already costs no turn of the promise queue. */
export type MaybePromise<T> = T | Promise<T>;
