import type { Metric, Registry } from 'prom-client';

/** Label names with their values, in the order in which they are written. */
export type Labels = Readonly<Record<string, string>>;

/**
 * Upper bounds of the buckets, in seconds: those that the semantic conventions advise for HTTP and for databases, and finer
 * ones below, where most answers are.
 */
const BOUNDS = Float64Array.of(
  0.0005,
  0.001,
  0.0025,
  0.005,
  0.01,
  0.025,
  0.05,
  0.075,
  0.1,
  0.25,
  0.5,
  0.75,
  1,
  2.5,
  5,
  7.5,
  10,
);
/** Where the measurements beyond the last bound are counted, and where the sum of all is kept. */
const BEYOND = BOUNDS.length;
const SUM = BEYOND + 1;

/** One line, or one bucket, of the text. */
interface Sample {
  readonly metricName?: string;
  readonly labels: Labels;
  readonly value: number;
}

/** What was measured under one combination of label values. */
interface Series {
  samples(name: string): readonly Sample[];
}

/** Durations, by bucket. */
export class Durations implements Series {
  readonly #values = new Float64Array(SUM + 1);

  constructor(private readonly labels: Labels) {}

  add(seconds: number): void {
    const values = this.#values;
    let bucket = 0;
    while (bucket < BEYOND && seconds > (BOUNDS[bucket] as number)) bucket += 1;
    values[bucket] = (values[bucket] as number) + 1;
    values[SUM] = (values[SUM] as number) + seconds;
  }

  samples(name: string): readonly Sample[] {
    const { labels } = this;
    let count = 0;
    const toBucket = (le: string, index: number): Sample => {
      count += this.#values[index] as number;
      return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count };
    };
    const buckets = Array.from(BOUNDS, (bound, index) => toBucket(String(bound), index));
    return [
      ...buckets,
      toBucket('+Inf', BEYOND),
      { metricName: `${name}_sum`, labels, value: this.#values[SUM] as number },
      { metricName: `${name}_count`, labels, value: count },
    ];
  }
}

/** A number that only grows. */
export class Count implements Series {
  #value = 0;

  constructor(private readonly labels: Labels) {}

  add(amount: number): void {
    this.#value += amount;
  }

  samples(): readonly Sample[] {
    return [{ labels: this.labels, value: this.#value }];
  }
}

/** The label that only failures have. */
export function toErrorType(failure: string | undefined): Labels {
  return failure === undefined ? {} : { error_type: failure };
}

type LabelValue = string | number | undefined;
type Branch<S> = Map<LabelValue, S>;

/**
 * The series of one metric, each made when it is first asked for. They are found by up to three label values, one after the
 * other: prom-client would check and hash an object of labels for every measurement, which takes microseconds.
 */
export class Family<
  S extends Series,
  A extends LabelValue,
  B extends LabelValue = undefined,
  C extends LabelValue = undefined,
> {
  readonly #tree: Branch<Branch<Branch<S>>> = new Map();
  readonly #all: S[] = [];

  /** @param make - makes the series of label values; there must be a bound to how many it is asked for */
  constructor(private readonly make: (first: A, second: B, third: C) => S) {}

  find(first: A, second?: B, third?: C): S {
    return this.#tree.get(first)?.get(second)?.get(third) ?? this.#add(first, second as B, third as C);
  }

  /** Has prom-client write the metric; its registry asks for nothing but these members. */
  register(registry: Registry, type: 'histogram' | 'counter', name: string, help: string): this {
    const get = () => ({ name, help, type, values: this.#all.flatMap((series) => series.samples(name)) });
    registry.registerMetric({ name, get } as unknown as Metric);
    return this;
  }

  #add(first: A, second: B, third: C): S {
    const series = this.make(first, second, third);
    grow(grow(this.#tree, first), second).set(third, series);
    this.#all.push(series);
    return series;
  }
}

function grow<S>(tree: Branch<Branch<S>>, value: LabelValue): Branch<S> {
  const known = tree.get(value);
  if (known) return known;
  const branch: Branch<S> = new Map();
  tree.set(value, branch);
  return branch;
}
