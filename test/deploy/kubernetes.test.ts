import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config.js';
import { checkManifest } from '../support/kubernetes-schemas.js';

const FOLDER = new URL('../../deploy/kubernetes/', import.meta.url);

/** The parts of a manifest that these tests read. */
interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
  spec: {
    selector: { matchLabels: object };
    podSelector: { matchLabels: object };
    strategy: { rollingUpdate: { maxSurge: number } };
    template: { metadata: { labels: object }; spec: PodSpec };
    scaleTargetRef: object;
    maxReplicas: number;
    ingress: { ports: { port: number | string }[] }[];
    egress: { ports: { port: number | string }[] }[];
  };
  stringData: Record<string, string>;
  resources: string[];
  images: { name: string }[];
}

interface PodSpec {
  terminationGracePeriodSeconds: number;
  topologySpreadConstraints: { labelSelector: { matchLabels: object } }[];
  containers: [Container];
  volumes: [{ secret: { secretName: string } }];
}

interface Container {
  image: string;
  ports: { name: string; containerPort: number }[];
  env: { name: string; value: string }[];
  volumeMounts: [{ mountPath: string }];
  lifecycle: { preStop: { sleep: { seconds: number } } };
}

const read = (name: string): Manifest => parse(readFileSync(new URL(name, FOLDER), 'utf8')) as Manifest;
const pod = (): Manifest['spec']['template'] => read(DEPLOYMENT).spec.template;
const container = (): Container => pod().spec.containers[0];

const DEPLOYMENT = 'base/deployment.yaml';
const MIGRATION = 'base/migration.yaml';
const PODMONITOR = 'production/podmonitor.yaml';
const AUTOSCALER = 'production/autoscaler.yaml';

const list = (folder: string): string[] =>
  readdirSync(new URL(folder, FOLDER))
    .filter((name) => name !== 'kustomization.yaml')
    .sort();
const MANIFESTS = ['base', 'production'].flatMap((folder) => list(folder).map((name) => `${folder}/${name}`));

/** Connections for users by default. https://www.postgresql.org/docs/current/runtime-config-connection.html */
const SERVER_CONNECTIONS = 100 - 3;

describe('the manifests for Kubernetes', () => {
  // The API has no schema of a PodMonitor.
  it.each(MANIFESTS.filter((name) => name !== PODMONITOR))('%s follows the schemas of the API', (name) => {
    expect(checkManifest(read(name))).toEqual([]);
  });

  it.each([
    [
      'a misspelt property',
      { readinesProbe: {} },
      /\/spec\/template\/spec\/containers\/0\/readinesProbe is no property/,
    ],
    ['a wrong type', { ports: 4000 }, /ports/],
    ['an unknown value of the wrong kind', { livenessProbe: { httpGet: { path: '/livez' } } }, /port/],
  ])('the schemas detect %s', (_what, wrong, message) => {
    const deployment = read(DEPLOYMENT);
    Object.assign(deployment.spec.template.spec.containers[0], wrong);
    expect(checkManifest(deployment).join('\n')).toMatch(message);
  });

  it('the kustomizations include all of them except the template of the secret', () => {
    const base = read('base/kustomization.yaml');
    expect([...base.resources].sort()).toEqual(list('base').filter((name) => !name.includes('example')));
    const { resources, images } = read('production/kustomization.yaml');
    expect([...resources].sort()).toEqual(['../base', ...list('production')]);
    expect(images.map(({ name }) => name)).toEqual([container().image]);
  });

  it('select the same pods', () => {
    const labels = pod().metadata.labels;
    expect(read(DEPLOYMENT).spec.selector.matchLabels).toEqual(labels);
    expect(read('base/service.yaml').spec.selector).toEqual(labels);
    expect(read('base/disruption-budget.yaml').spec.selector.matchLabels).toEqual(labels);
    for (const { labelSelector } of pod().spec.topologySpreadConstraints)
      expect(labelSelector.matchLabels).toEqual(labels);
    const { name } = read(DEPLOYMENT).metadata;
    expect(read(AUTOSCALER).spec.scaleTargetRef).toMatchObject({ kind: 'Deployment', name });
    expect(read('base/network-policy.yaml').spec.podSelector.matchLabels).toEqual(labels);
    expect(read(MIGRATION).spec.template.metadata.labels).not.toMatchObject(labels);
  });

  it('mount the secret, from which the program reads its URLs', () => {
    const { metadata, stringData } = read('base/secret.example.yaml');
    const [{ mountPath }] = container().volumeMounts;
    expect(pod().spec.volumes[0].secret.secretName).toBe(metadata.name);
    for (const name of Object.keys(stringData)) expect(settings()[`${name}_FILE`]).toBe(`${mountPath}/${name}`);
    expect(loadConfig(stringData).backend.kind).toBe('server');
  });

  it('let through the ports on which the program listens and those of its databases', () => {
    const { ingress, egress } = read('base/network-policy.yaml').spec;
    expect(ingress.flatMap(({ ports }) => ports.map(({ port }) => port))).toEqual(
      container().ports.map(({ name }) => name),
    );
    const { stringData } = read('base/secret.example.yaml');
    const wanted = Object.values(stringData).map((url) => Number(new URL(url).port));
    // The default ports of PgBouncer and Sentinel.
    // https://www.pgbouncer.org/config.html and https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/
    const around = [6432, 26379];
    expect(egress.flatMap(({ ports }) => ports.map(({ port }) => port))).toEqual(
      expect.arrayContaining([...wanted, ...around]),
    );
  });

  it('contain settings that the program accepts', () => {
    const config = loadConfig({ NODE_ENV: 'production', ...settings() });
    expect(config.metricsPort).toBe(portNamed('metrics'));
    expect(config.port).toBe(portNamed('http'));
  });

  it('kill the program only after its grace time', () => {
    const { terminationGracePeriodSeconds, containers } = pod().spec;
    const { shutdownGraceMs } = loadConfig(settings());
    expect(terminationGracePeriodSeconds).toBeGreaterThan(
      containers[0].lifecycle.preStop.sleep.seconds + shutdownGraceMs / 1000,
    );
  });

  it('open no more connections than a server has, even with the most instances', () => {
    const { maxReplicas } = read(AUTOSCALER).spec;
    const { maxSurge } = read(DEPLOYMENT).spec.strategy.rollingUpdate;
    expect((maxReplicas + maxSurge) * Number(settings().DATABASE_POOL)).toBeLessThanOrEqual(SERVER_CONNECTIONS);
  });
});

function portNamed(wanted: string): number | undefined {
  return container().ports.find(({ name }) => name === wanted)?.containerPort;
}

function settings(): Record<string, string> {
  return Object.fromEntries(container().env.map(({ name, value }) => [name, value]));
}
