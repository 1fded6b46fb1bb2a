import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config.js';

const readText = (name: string): string => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');

/** The parts of the file that these tests read. */
interface Service {
  deploy: { replicas: number };
  environment: Record<string, string>;
  healthcheck: { test: string[] };
  stop_grace_period: string;
  volumes: string[];
}

const compose = parse(readText('compose.yaml')) as { services: Record<'store' | 'postgres', Service> };

describe('compose.yaml', () => {
  it('starts two instances, and every other service has a health check', () => {
    const { store, ...others } = compose.services;
    expect(store.deploy.replicas).toBe(2);
    expect(Object.keys(others).sort()).toEqual(['balancer', 'postgres', 'redis']);
    for (const service of Object.values(others)) expect(service.healthcheck.test).toBeDefined();
    expect(readText('Dockerfile')).toContain('HEALTHCHECK');
  });

  it('contains settings that the program accepts, and no secret', () => {
    const { environment } = compose.services.store;
    const filled = Object.fromEntries(
      Object.entries(environment).map(([name, value]) => [name, interpolate(value, { POSTGRES_PASSWORD: 'x' })]),
    );
    // The balancer connects to the default port.
    const { port, ...config } = loadConfig({ NODE_ENV: 'production', ...filled });
    expect(readText('deploy/haproxy.cfg')).toContain(`store:${port}`);
    expect(config).toMatchObject({ backend: { kind: 'server', pool: 10 }, trustProxy: true, metricsPort: 9464 });
    const [from = '', to = ''] = compose.services.store.volumes[0]?.split(':') ?? [];
    expect(config.trustedDocuments).toEqual({ path: `${to}/persisted-documents.json`, others: 'reported' });
    expect(JSON.parse(readText(`${from}/persisted-documents.json`))).toMatchObject({});
    expect(() => interpolate(environment.DATABASE_URL ?? '', {})).toThrow('POSTGRES_PASSWORD');
    expect(() => interpolate(compose.services.postgres.environment.POSTGRES_PASSWORD ?? '', {})).toThrow(
      'POSTGRES_PASSWORD',
    );
    expect(readText('deploy/compose.env.example')).toMatch(/^POSTGRES_PASSWORD=$/m);
    expect(readText('.gitignore').split('\n')).toContain('deploy/compose.env');
  });

  it('kills the program only after its grace time', () => {
    const { stop_grace_period } = compose.services.store;
    expect(Number.parseInt(stop_grace_period, 10) * 1000).toBeGreaterThan(loadConfig({}).shutdownGraceMs);
  });
});

/** Fills in `${NAME:-default}` and `${NAME:?message}`, as Compose does. */
function interpolate(text: string, values: Record<string, string>): string {
  return text.replace(/\$\{(\w+):([-?])([^}]*)\}/g, (_all, name: string, kind: string, rest: string) => {
    const value = values[name] ?? (kind === '-' ? rest : undefined);
    if (value === undefined) throw new Error(`${name}: ${rest}`);
    return value;
  });
}
