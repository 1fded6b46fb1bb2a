import { parser } from '@prometheus-io/lezer-promql';

/** A metric that a query reads, with the labels that the query expects of it. */
export interface Reference {
  readonly metric: string;
  readonly labels: readonly string[];
}

/** The metrics of a query with their matchers, and the labels that it groups or joins by. */
export interface Query {
  readonly references: readonly Reference[];
  readonly grouping: readonly string[];
}

/** Grafana replaces these variables before it sends a query. Any value of the right kind works here. */
const VARIABLES: readonly (readonly [RegExp, string])[] = [
  [/\$__rate_interval|\$__interval|\$__range/g, '5m'],
  [/\$\{?\w+(?::\w+)?\}?/g, 'anything'],
];

/**
 * Parses a query with the grammar of Prometheus.
 * @throws Error if the query is invalid
 */
export function readQuery(expression: string): Query {
  const text = VARIABLES.reduce((query, [variable, value]) => query.replace(variable, value), expression);
  const references: { metric: string; labels: string[] }[] = [];
  const grouping: string[] = [];
  let isGrouping = false;
  parser.parse(text).iterate({
    enter({ name, type, from, to }) {
      if (type.isError) throw new Error(`not valid PromQL at ${from}: ${expression}`);
      const word = text.slice(from, to);
      if (name === 'VectorSelector') references.push({ metric: '', labels: [] });
      if (name === 'GroupingLabels') isGrouping = true;
      const last = references.at(-1);
      if (name === 'Identifier' && last) last.metric = word;
      if (name === 'LabelName') (isGrouping ? grouping : (last?.labels ?? [])).push(word);
    },
    leave({ name }) {
      if (name === 'GroupingLabels') isGrouping = false;
    },
  });
  return { references, grouping };
}
