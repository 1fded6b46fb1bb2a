import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

type Labels<Name extends string> = Readonly<Partial<Record<Name, string | number>>>;

/**
 * Upper bounds of the buckets, in seconds: those that the semantic conventions recommend for HTTP and for databases,
 * and smaller ones, because most requests take less than 5 ms.
 */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Creates a histogram of durations in seconds. */
export function createDurations<Name extends string>(registry: Registry, name: string, help: string, labels: Name[]) {
  return new Histogram({ name, help, labelNames: labels, buckets: BUCKETS, registers: [registry] });
}

/** Creates a counter. The labels in `zeros` are registered at zero, so that their first event shows as an increase. */
export function createCounter<Name extends string>(
  registry: Registry,
  name: string,
  help: string,
  labels: Name[],
  zeros: readonly Labels<Name>[],
) {
  const counter = new Counter({ name, help, labelNames: labels, registers: [registry] });
  for (const zero of zeros) counter.inc(zero, 0);
  return counter;
}

/** Creates a gauge with one or more labels. Each scrape calls `read` for the values. */
export function createGauge<Name extends string>(
  registry: Registry,
  name: string,
  help: string,
  labels: Name[],
  read: () => readonly (readonly [Labels<Name>, number])[],
): void {
  new Gauge({
    name,
    help,
    labelNames: labels,
    registers: [registry],
    collect() {
      for (const [values, value] of read()) this.set(values, value);
    },
  });
}

/** Creates a gauge without labels. Each scrape calls `read` for its value. */
export function createPlainGauge(registry: Registry, name: string, help: string, read: () => number): void {
  createGauge(registry, name, help, [], () => [[{}, read()]]);
}

/** Returns the label `error_type`, which only failures have. prom-client would write `undefined` as text. */
export function toErrorType(failure: string | undefined): { error_type?: string } {
  return failure === undefined ? {} : { error_type: failure };
}
