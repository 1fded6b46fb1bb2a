/** One line of Prometheus text. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

interface Instance {
  fetch(path: string): Promise<Response>;
}

/** Fetches the metrics of a running program. */
export async function scrape(instance: Instance): Promise<readonly Sample[]> {
  return parseSamples(await (await instance.fetch('/metrics')).text());
}

const SAMPLE = /^(?<name>\w+)(?:\{(?<labels>.*)\})? (?<value>\S+)$/;

export function parseSamples(text: string): readonly Sample[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const { name, labels = '', value } = (SAMPLE.exec(line)?.groups ?? {}) as Record<string, string>;
      if (name === undefined) throw new Error(`not a sample: ${line}`);
      const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, label, text]) => [label, text]);
      return { name, labels: Object.fromEntries(pairs) as Sample['labels'], value: Number(value) };
    });
}

/** The sum of the samples with this name and these labels; undefined if there are none. */
export function sum(samples: readonly Sample[], name: string, labels: Sample['labels'] = {}): number | undefined {
  const found = samples.filter(
    (sample) =>
      sample.name === name && Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  );
  return found.length === 0 ? undefined : found.reduce((total, { value }) => total + value, 0);
}
