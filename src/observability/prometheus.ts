import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

type Labels = Readonly<Record<string, string>>;

export type Instruments = ReturnType<typeof createInstruments>;

/**
 * Upper bounds of the buckets, in seconds: those that the semantic conventions recommend for HTTP and for databases,
 * and smaller ones, because most requests take less than 5 ms.
 */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

export function createInstruments(registry: Registry) {
  const registers = [registry];
  return {
    durations: <Name extends string>(name: string, help: string, labelNames: Name[]) =>
      new Histogram({ name, help, labelNames, buckets: BUCKETS, registers }),

    /** Creates a counter. Its label values in `zeros` start at zero, so that their first event shows as an increase. */
    counter: (name: string, help: string, zeros: readonly Labels[]) => {
      const counter = new Counter({ name, help, labelNames: Object.keys(zeros[0] ?? {}), registers });
      for (const zero of zeros) counter.inc(zero, 0);
      return counter;
    },

    /** Creates a gauge. Each scrape calls the functions for the values, of which several are told apart by labels. */
    gauge: (name: string, help: string, read: (() => number) | readonly (readonly [Labels, () => number])[]): void => {
      const series = typeof read === 'function' ? [[{}, read] as const] : read;
      new Gauge({
        name,
        help,
        labelNames: Object.keys(series[0]?.[0] ?? {}),
        registers,
        collect() {
          for (const [labels, read] of series) this.set(labels, read());
        },
      });
    },
  };
}

/** Returns the label `error_type`, which only failures have. prom-client would write `undefined` as text. */
export function toErrorType(failure: string | undefined): { error_type?: string } {
  return failure === undefined ? {} : { error_type: failure };
}
