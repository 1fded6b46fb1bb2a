/** A value, or a promise of it if it is not available yet. */
export type MaybePromise<T> = T | Promise<T>;

/** Passes a value on, at once if it is available. */
export function chain<In, Out>(value: MaybePromise<In>, next: (value: In) => MaybePromise<Out>): MaybePromise<Out> {
  return value instanceof Promise ? value.then(next) : next(value);
}
