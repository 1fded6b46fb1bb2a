import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { describeWith } from '../support/installed-program.js';
import { checkManifest } from '../support/kubernetes-schemas.js';

const FOLDER = new URL('../../deploy/kubernetes/', import.meta.url);
const readText = (url: URL): string => readFileSync(url, 'utf8');
const read = (name: string): Manifest => parse(readText(new URL(name, FOLDER))) as Manifest;

/** The parts of a manifest that these tests read. */
interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels: Record<string, string> };
  spec: {
    selector: { matchLabels: object };
    template?: { spec: { containers: [Container]; volumes: object[] } };
    ports: [{ name: string; targetPort: string }];
    tls: [{ hosts: string[] }];
    rules: [{ host: string; http: { paths: object[] } }];
  };
  images: [{ newName: string; newTag: string }];
}

type Probe = 'startupProbe' | 'livenessProbe' | 'readinessProbe';

interface Container extends Record<Probe, { httpGet: object }> {
  image: string;
  command: string[];
  ports: { name: string; containerPort: number }[];
  env: object[];
  volumeMounts: object[];
  securityContext: object;
}

const podSpec = ({ spec }: Manifest) => spec.template?.spec as NonNullable<Manifest['spec']['template']>['spec'];
const deployment = read('base/deployment.yaml');
const migration = read('base/migration.yaml');
const [server] = podSpec(deployment).containers;
const [migrator] = podSpec(migration).containers;
const pod = deployment.spec.selector.matchLabels;
const PROBES: Probe[] = ['startupProbe', 'livenessProbe', 'readinessProbe'];

describe('the manifests for Kubernetes', () => {
  it('restart an instance that does not answer, and take one that cannot serve out of the service', () => {
    const paths = PROBES.map((probe) => server[probe].httpGet);
    expect(paths).toEqual([
      { path: '/livez', port: 'http' },
      { path: '/livez', port: 'http' },
      { path: '/readyz', port: 'http' },
    ]);
  });

  it('migrate in the job alone, with the image and the secret of the instances', () => {
    expect(server.env).toContainEqual({ name: 'MIGRATE', value: 'false' });
    expect(migrator.image).toBe(server.image);
    expect(migrator.volumeMounts).toEqual(server.volumeMounts);
    expect(podSpec(migration).volumes).toEqual(podSpec(deployment).volumes);
    for (const variable of migrator.env) expect(server.env).toContainEqual(variable);
    expect(migrator.securityContext).toEqual(server.securityContext);
    const [node, script] = migrator.command;
    expect(node).toBe('node');
    const source = script?.replace(/^dist\/(.*)\.js$/, 'src/$1.ts') ?? '';
    expect(existsSync(new URL(`../../${source}`, import.meta.url)), source).toBe(true);
  });

  it('send requests through the ingress to the service', () => {
    const service = read('base/service.yaml');
    const { tls, rules } = read('production/ingress.yaml').spec;
    expect(tls[0].hosts).toEqual([rules[0].host]);
    const backend = { service: { name: service.metadata.name, port: { name: service.spec.ports[0].name } } };
    expect(rules[0].http.paths).toEqual([{ path: '/', pathType: 'Prefix', backend }]);
    expect(server.ports).toContainEqual({ name: service.spec.ports[0].targetPort, containerPort: 4000 });
    // The ingress sets X-Forwarded-For.
    expect(server.env).toContainEqual({ name: 'TRUST_PROXY', value: 'true' });
  });

  it('have Prometheus scrape the metrics port of every instance, as the job of the alerts', () => {
    const alerts = readText(new URL('../../deploy/prometheus/alerts.yaml', import.meta.url));
    const job = /up\{job="([^"]+)"\}/.exec(alerts)?.[1];
    const { apiVersion, kind, spec } = read('production/podmonitor.yaml');
    expect({ apiVersion, kind, spec }).toEqual({
      apiVersion: 'monitoring.coreos.com/v1',
      kind: 'PodMonitor',
      spec: {
        selector: { matchLabels: pod },
        podMetricsEndpoints: [
          { port: 'metrics', interval: '15s', relabelings: [{ targetLabel: 'job', replacement: job }] },
        ],
      },
    });
    expect(server.ports.map(({ name }) => name)).toContain('metrics');
  });
});

describeWith('kubectl', 'the production overlay, rendered', (kubectl) => {
  it('has every manifest once, valid, with the image that the overlay names', () => {
    const folder = fileURLToPath(new URL('production', FOLDER));
    const text = execFileSync(kubectl, ['kustomize', folder], { encoding: 'utf8' });
    const manifests = parseAllDocuments(text).map((document) => document.toJS() as Manifest);
    expect(manifests.map(({ kind }) => kind).sort()).toEqual([
      'Deployment',
      'HorizontalPodAutoscaler',
      'Ingress',
      'Job',
      'NetworkPolicy',
      'PodDisruptionBudget',
      'PodMonitor',
      'Service',
    ]);
    const known = manifests.filter(({ kind }) => kind !== 'PodMonitor');
    expect(known.flatMap((manifest) => checkManifest(manifest))).toEqual([]);
    const [image] = read('production/kustomization.yaml').images;
    const images = manifests.flatMap(({ spec }) => spec.template?.spec.containers ?? []).map(({ image }) => image);
    expect(images).toEqual(Array(2).fill(`${image.newName}:${image.newTag}`));
    // The guide applies the job alone, by its label.
    const name = migration.metadata.labels['app.kubernetes.io/name'];
    const selected = manifests.filter(({ metadata }) => metadata.labels['app.kubernetes.io/name'] === name);
    expect(selected.map(({ kind }) => kind)).toEqual(['Job']);
    expect(readText(new URL('../../docs/growing.md', import.meta.url))).toContain(
      `--selector app.kubernetes.io/name=${String(name)}`,
    );
  });
});
