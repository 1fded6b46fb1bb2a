import { parser } from '@prometheus-io/lezer-promql';

/** A metric that a query reads, with the labels that the query expects of it. */
export interface Reference {
  readonly metric: string;
  readonly labels: readonly string[];
}

/** What a query names: its metrics with their matchers, and the labels that it groups or joins by. */
export interface Query {
  readonly references: readonly Reference[];
  readonly grouping: readonly string[];
}

/** Grafana puts these in before it asks; a value of each kind will do here. */
const VARIABLES: readonly (readonly [RegExp, string])[] = [
  [/\$__rate_interval|\$__interval|\$__range/g, '5m'],
  [/\$\{?\w+(?::\w+)?\}?/g, 'anything'],
];

/**
 * Reads a query with Prometheus' own grammar.
 * @throws Error when it is not valid
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
