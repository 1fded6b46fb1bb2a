import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config.js';
import { connectRedis, describeWithRedisServer } from '../support/redis.js';
import { startRedisServer } from '../support/redis-server.js';

const readText = (name: string): string => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');

/** The parts of the file that these tests read. */
interface Service {
  image: string;
  read_only: boolean;
  cap_drop: string[];
  security_opt: string[];
  secrets?: string[];
  command?: string[];
  deploy: { replicas: number };
  environment: Record<string, string>;
  healthcheck: { test: string[] };
  stop_grace_period: string;
  volumes: string[];
}

const compose = parse(readText('compose.yaml'), { merge: true }) as {
  services: Record<'balancer' | 'store' | 'postgres' | 'redis', Service>;
  secrets: Record<string, { file: string }>;
};

describe('compose.yaml', () => {
  it('starts two instances, and every other service has a health check', () => {
    const { store, ...others } = compose.services;
    expect(store.deploy.replicas).toBe(2);
    expect(Object.keys(others).sort()).toEqual(['balancer', 'postgres', 'redis']);
    for (const service of Object.values(others)) expect(service.healthcheck.test).toBeDefined();
    expect(readText('Dockerfile')).toContain('HEALTHCHECK');
  });

  it('names images by digest', () => {
    expect(readText('Dockerfile')).toMatch(/^FROM node:\S+@sha256:[0-9a-f]{64} AS base$/m);
    const { balancer, postgres, redis } = compose.services;
    for (const { image } of [balancer, postgres, redis]) expect(image).toMatch(/^[\w.:-]+@sha256:[0-9a-f]{64}$/);
  });

  it('gives no service a right to change its files or to gain capabilities', () => {
    for (const service of Object.values(compose.services))
      expect(service).toMatchObject({
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
      });
  });

  it('contains settings that the program accepts', () => {
    const { environment } = compose.services.store;
    const filled = Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, interpolate(value)]));
    const { port, ...config } = loadConfig({ NODE_ENV: 'production', ...filled });
    // The balancer connects to the default port.
    expect(readText('deploy/haproxy.cfg')).toContain(`store:${port}`);
    expect(config).toMatchObject({ trustProxy: true, metricsPort: 9464 });
    const [from = '', to = ''] = compose.services.store.volumes[0]?.split(':') ?? [];
    expect(config.trustedDocuments).toEqual({ path: `${to}/persisted-documents.json`, others: 'reported' });
    expect(JSON.parse(readText(`${from}/persisted-documents.json`))).toMatchObject({});
  });

  it('reads every secret from a file that make-secrets writes, readable only through its folder', () => {
    const folder = mkdtempSync(join(tmpdir(), 'secrets-'));
    try {
      cpSync(new URL('../../deploy/make-secrets', import.meta.url), join(folder, 'make-secrets'));
      execFileSync(join(folder, 'make-secrets'));
      execFileSync(join(folder, 'make-secrets'));
      expect(statSync(join(folder, 'secrets')).mode & 0o777).toBe(0o700);
      expect(readText('.gitignore').split('\n')).toContain('deploy/secrets/');
      const secrets = Object.fromEntries(
        Object.entries(compose.secrets).map(([name, { file }]) => [
          name,
          readFileSync(join(folder, file.replace('deploy/', '')), 'utf8').trim(),
        ]),
      );
      const { store, postgres, redis } = compose.services;
      expect(store.environment).toMatchObject({
        DATABASE_URL_FILE: '/run/secrets/database-url',
        REDIS_URL_FILE: '/run/secrets/redis-url',
      });
      expect(postgres.environment.POSTGRES_PASSWORD_FILE).toBe('/run/secrets/postgres-password');
      const used = [store, postgres, redis].flatMap((service) => service.secrets ?? []);
      expect(used.sort()).toEqual(Object.keys(secrets).sort());
      const config = loadConfig({
        DATABASE_URL: secrets['database-url'],
        REDIS_URL: secrets['redis-url'],
      });
      expect(config.backend).toMatchObject({ kind: 'server' });
      expect(new URL(secrets['database-url'] ?? '').password).toBe(secrets['postgres-password']);
      expect(secrets['redis.conf']).toBe(`requirepass ${new URL(config.redis?.url ?? '').password}`);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('kills the program only after its grace time', () => {
    const { stop_grace_period } = compose.services.store;
    expect(Number.parseInt(stop_grace_period, 10) * 1000).toBeGreaterThan(loadConfig({}).shutdownGraceMs);
  });
});

describeWithRedisServer('the Redis of compose.yaml', () => {
  it('has a bounded memory, and evicts nothing when it is full', async () => {
    const [program, config, ...options] = compose.services.redis.command ?? [];
    expect([program, config]).toEqual(['redis-server', '/run/secrets/redis.conf']);
    const folder = mkdtempSync(join(tmpdir(), 'redis-'));
    const server = await startRedisServer(...options, '--dir', folder);
    const client = await connectRedis(server.url);
    try {
      expect(await client.config('GET', 'maxmemory')).toEqual(['maxmemory', String(256 * 1_024 * 1_024)]);
      expect(await client.config('GET', 'maxmemory-policy')).toEqual(['maxmemory-policy', 'noeviction']);
    } finally {
      client.disconnect();
      await server.close();
      rmSync(folder, { recursive: true });
    }
  });
});

/** Fills in the default of `${NAME:-default}`, as Compose does. */
function interpolate(text: string): string {
  return text.replace(/\$\{\w+:-([^}]*)\}/g, '$1');
}
