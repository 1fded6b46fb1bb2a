import { Histogram, type Registry } from 'prom-client';

/**
 * Upper bounds of the buckets, in seconds: those that the semantic conventions advise for HTTP and for databases, and finer
 * ones below, because most requests take less than 5 ms.
 */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Creates a histogram of durations in seconds. */
export function createDurations<Label extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly Label[],
): Histogram<Label> {
  return new Histogram({ name, help, labelNames, buckets: BUCKETS, registers: [registry] });
}

/** The label that only failures have. prom-client would write an undefined value as text. */
export function toErrorType(failure: string | undefined): { error_type?: string } {
  return failure === undefined ? {} : { error_type: failure };
}
