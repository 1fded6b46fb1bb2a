import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { breakReads, startGateway, type Gateway } from '../support/gateway.js';
import { makeManifest, type Manifest } from '../support/manifest.js';
import { describeWithRedisServer } from '../support/redis.js';
import { startRedisServer } from '../support/redis-server.js';
import { readQuery } from './promql.js';
import { scrape, type Sample } from './scrape.js';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

interface Panel {
  readonly title: string;
  /** `expr` is PromQL. The other targets are SQL: see usage-panels.test.ts. */
  readonly targets?: readonly { readonly expr?: string; readonly legendFormat: string }[];
}

const dashboard = JSON.parse(read('deploy/grafana/animal-store-gateway.json')) as {
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly { readonly type: string; readonly query: { readonly query: string } }[];
  };
};
const targets = dashboard.panels.flatMap(({ title, targets: all = [] }) =>
  all.flatMap(({ expr, legendFormat }) => (expr === undefined ? [] : [{ title, expr, legendFormat }])),
);
const { groups } = parse(read('deploy/prometheus/alerts.yaml')) as {
  readonly groups: readonly { readonly rules: readonly { readonly alert: string; readonly expr: string }[] }[];
};
const alerts = groups.flatMap(({ rules }) => rules);
const guide = read('docs/operating.md');

/** The labels that Prometheus adds to every series of a target, and the series that it creates itself. */
const TARGET_LABELS = ['job', 'instance'];
const MADE_BY_PROMETHEUS = { up: TARGET_LABELS };

/** The metrics and their labels, on instances in every mode after traffic of every kind. */
type Existing = ReadonlyMap<string, ReadonlySet<string>>;

describeWithRedisServer('the files for operators', () => {
  let existing: Existing;
  const gateways: Gateway[] = [];
  let manifest: Manifest;

  beforeAll(async () => {
    const redis = await startRedisServer();
    manifest = await makeManifest({ named: 'query Named { pets { id } }' });
    const env = { BAN_AFTER: '1', REDIS_URL: redis.url, TRUSTED_DOCUMENTS: manifest.path };
    gateways.push(await startGateway('embedded', env), await startGateway('proxy', env));
    await redis.close();
    const instances = gateways.flatMap((gateway) => [gateway, ...(gateway.upstream ? [gateway.upstream] : [])]);
    for (const instance of instances) await causeTraffic(instance);
    existing = collect((await Promise.all(instances.map(scrape))).flat());
  });
  afterAll(async () => {
    for (const gateway of gateways) await gateway.close();
    await manifest.remove();
  });

  it.each(targets)('the dashboard queries existing metrics: $title: $expr', ({ expr, legendFormat }) => {
    expect(findUnknown(expr, existing)).toEqual([]);
    const { grouping } = readQuery(expr);
    for (const [, label] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) expect(grouping).toContain(label);
  });

  it('the variables of the dashboard query existing metrics', () => {
    const queries = dashboard.templating.list.filter(({ type }) => type === 'query').map(({ query }) => query.query);
    expect(queries).toHaveLength(2);
    for (const query of queries) {
      const { selector = '', label } = /^label_values\((?<selector>.*), (?<label>\w+)\)$/.exec(query)?.groups ?? {};
      expect(findUnknown(selector, existing)).toEqual([]);
      expect(TARGET_LABELS).toContain(label);
    }
  });

  it.each(alerts)('the alert $alert queries existing metrics', ({ expr }) => {
    expect(findUnknown(expr, existing)).toEqual([]);
  });

  it('the dashboard divides the ratios of the alerts by their budgets', () => {
    const rates = targets.filter(({ title }) => title === 'Burn rates of the objectives').map(({ expr }) => expr);
    const [failed, slow] = ['AnimalStoreServerErrors', 'AnimalStoreSlow'].map((name) => {
      const { expr = '' } = alerts.find(({ alert }) => alert === name) ?? {};
      const ratio = /^\((.*) > /.exec(expr)?.[1] ?? '';
      return ratio.replaceAll('http_route', 'job=~"$job", instance=~"$instance", http_route');
    });
    expect(rates).toEqual([`${failed} / 0.001`, `(${slow}) / 0.01`]);
  });

  it('the dashboard shows each metric of the program, and the guide explains each alert', () => {
    const shown = new Set(
      targets.flatMap(({ expr }) => readQuery(expr).references.map(({ metric }) => toFamily(metric))),
    );
    expect([...ownMetrics(existing)].filter((metric) => !shown.has(metric))).toEqual([]);
    expect(alerts.filter(({ alert }) => !guide.includes(`\`${alert}\``))).toEqual([]);
  });

  it('the guide lists exactly the metrics of the program, with their labels', () => {
    const rows = [...guide.matchAll(/^- `([a-z]\w+)`(?:\s+\(([^)]*)\))?:/gm)].filter(([, metric]) =>
      /_(?:seconds|total|count|max|requests|pool|info|mode|shared|open)$/.test(metric as string),
    );
    const listed = new Map(
      rows.map(([, metric, labels]) => [
        metric as string,
        [...(labels ?? '').matchAll(/`(\w+)`/g)].map(([, label]) => label as string).sort(),
      ]),
    );
    const own = [...ownMetrics(existing)];
    expect([...listed.keys()].sort()).toEqual(own.sort());
    for (const [metric, labels] of listed) expect([metric, labels]).toEqual([metric, labelsOf(metric, existing)]);
  });

  it('the checks detect a metric or label that does not exist', () => {
    for (const [wrong, unknown] of [
      ['sum(rate(http_server_requests_total[5m]))', ['http_server_requests_total']],
      ['sum by (path) (limiter_shared)', ['path']],
      ['limiter_refusals_total{key="x"}', ['limiter_refusals_total{key}']],
      [
        'histogram_quantile(0.9, sum by (le, route) (rate(http_server_request_duration_seconds_bucket[$__rate_interval])))',
        ['route'],
      ],
    ] as const) {
      expect(findUnknown(wrong, existing)).toEqual(unknown);
    }
    expect(() => readQuery('sum(rate(limiter_shared[5m])')).toThrow('not valid PromQL');
  });
});

/** The metrics and labels of a query that do not exist. */
function findUnknown(expression: string, existing: Existing): string[] {
  const { references, grouping } = readQuery(expression);
  expect(references.length).toBeGreaterThan(0);
  const labelsOfAll = new Set(TARGET_LABELS);
  const unknown: string[] = [];
  for (const { metric, labels } of references) {
    const known = existing.get(metric);
    for (const label of known ?? []) labelsOfAll.add(label);
    if (!known) unknown.push(metric);
    else unknown.push(...labels.filter((label) => !known.has(label)).map((label) => `${metric}{${label}}`));
  }
  return [...unknown, ...grouping.filter((label) => unknown.length === 0 && !labelsOfAll.has(label))];
}

function collect(samples: readonly Sample[]): Existing {
  const metrics = new Map(Object.entries(MADE_BY_PROMETHEUS).map(([name, labels]) => [name, new Set(labels)]));
  for (const { name, labels } of samples) {
    const known = metrics.get(name) ?? new Set(TARGET_LABELS);
    for (const label of Object.keys(labels)) known.add(label);
    metrics.set(name, known);
  }
  return metrics;
}

function toFamily(metric: string): string {
  return metric.replace(/(_seconds)_(?:bucket|sum|count)$/, '$1');
}

/** The metrics of the program, without the ones that prom-client adds to every Node program. */
function ownMetrics(existing: Existing): ReadonlySet<string> {
  const isForeign = (name: string): boolean =>
    name in MADE_BY_PROMETHEUS ||
    (/^(?:process|nodejs)_/.test(name) && name !== 'nodejs_eventloop_active_seconds_total');
  return new Set([...existing.keys()].filter((name) => !isForeign(name)).map(toFamily));
}

function labelsOf(family: string, existing: Existing): string[] {
  const labels = existing.get(family) ?? existing.get(`${family}_count`) ?? [];
  return [...labels].filter((label) => !TARGET_LABELS.includes(label)).sort();
}

/** Sends requests of every kind that the metrics count. */
async function causeTraffic(instance: Gateway): Promise<void> {
  const { key } = await instance.createKey();
  const free = await instance.createKey({ plan: 'free' });
  const lookups = Array.from({ length: 60 }, (_, n) => `a${n}: pet(id: ${n + 1}) { id }`);
  await instance.graphql('query Named { pets { id } }', { key });
  await instance.graphql(`{ ${lookups.join(' ')} }`, { key });
  await instance.graphql('mutation { addPet(input: { name: "Kiwi", categoryId: 1 }) { id } }', { key });
  for (let n = 0; n < 4; n++)
    await instance.graphql(`{ pets { id } ${lookups.slice(1).join(' ')} }`, { key: free.key });
  for (let n = 0; n < 61; n++) await instance.graphql('{ pets { id } }');
  if (instance.upstream) {
    const repair = await breakReads(instance.upstream);
    await instance.graphql('{ pets { id } }', { key });
    await repair();
  }
}
