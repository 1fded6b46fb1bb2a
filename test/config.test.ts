import { describe, expect, it } from 'vitest';
import { ConfigError, loadConfig } from '../src/config.js';

const DATABASE_URL = 'postgres://gateway:s3cret@db.example:5432/store';

describe('loadConfig', () => {
  it('has a default for every setting', () => {
    expect(loadConfig({})).toEqual({
      host: '127.0.0.1',
      port: 4_000,
      backend: {
        kind: 'embedded',
        directory: '.data',
        migrate: true,
        sampleAnimals: true,
        developmentKeys: true,
      },
      production: false,
      introspection: true,
      explorer: true,
      mcp: true,
      keyPage: true,
      keySelfRotation: false,
      corsOrigins: undefined,
      corsHeaders: [],
      trustProxy: false,
      metricsPort: undefined,
      logLevel: 'info',
      bans: { banAfter: 100, banSeconds: 300 },
      brownouts: [],
      limits: { maxRootFields: 100, maxBatch: 20, maxBodyBytes: 1_048_576, maxResponseBytes: 8_388_608 },
      startTimeoutMs: 60_000,
      shutdownGraceMs: 10_000,
    });
  });

  it('reads the environment', () => {
    const config = loadConfig({
      HOST: '0.0.0.0',
      PORT: '0',
      DATA_DIR: '/var/lib/animals',
      SAMPLE_DATA: 'false',
      INTROSPECTION: 'false',
      EXPLORER: 'false',
      CORS_ORIGINS: 'https://app.example.com, http://localhost:5173,https://*.example.com:8443',
      CORS_HEADERS: 'X-Trace-Id, x-b3-traceid',
      TRUST_PROXY: 'true',
      METRICS_PORT: '9464',
      LOG_LEVEL: 'debug',
      BAN_AFTER: '0',
      BAN_SECONDS: '60',
      MAX_ROOT_FIELDS: '10',
      MAX_BATCH: '1',
      MAX_BODY_BYTES: '2048',
      MAX_RESPONSE_BYTES: '4096',
      SHUTDOWN_GRACE_MS: '0',
      REDIS_URL: 'rediss://user:pass%2Fword@redis.example:6380/2',
    });
    expect(config).toMatchObject({
      host: '0.0.0.0',
      port: 0,
      backend: { kind: 'embedded', directory: '/var/lib/animals', sampleAnimals: false, developmentKeys: true },
      introspection: false,
      explorer: false,
      corsOrigins: ['https://app.example.com', 'http://localhost:5173', 'https://*.example.com:8443'],
      corsHeaders: ['X-Trace-Id', 'x-b3-traceid'],
      trustProxy: true,
      metricsPort: 9_464,
      logLevel: 'debug',
      bans: { banAfter: 0, banSeconds: 60 },
      limits: { maxRootFields: 10, maxBatch: 1, maxBodyBytes: 2_048, maxResponseBytes: 4_096 },
      shutdownGraceMs: 0,
      redis: { url: 'rediss://user:pass%2Fword@redis.example:6380/2', setting: 'REDIS_URL', timeoutMs: 250 },
    });
  });

  it('ignores a line break at the end of a URL', () => {
    const config = loadConfig({ DATABASE_URL: `${DATABASE_URL}\n`, REDIS_URL: 'redis://redis.example\n' });
    expect(config).toMatchObject({ backend: { url: DATABASE_URL }, redis: { url: 'redis://redis.example' } });
  });

  it.each(['postgres', 'postgresql'])('selects a PostgreSQL server for a %s URL', (scheme) => {
    const url = `${scheme}://gateway:s3cret@db.example/store`;
    expect(loadConfig({ DATABASE_URL: url }).backend).toEqual({
      kind: 'server',
      setting: 'DATABASE_URL',
      url,
      pool: 10,
      prepare: true,
      migrate: true,
    });
    expect(loadConfig({ DATABASE_URL: url, DATABASE_POOL: '3', DATABASE_PREPARE: 'false' }).backend).toEqual({
      kind: 'server',
      setting: 'DATABASE_URL',
      url,
      pool: 3,
      prepare: false,
      migrate: true,
    });
  });

  it.each([
    ['postgres:///db?host=/run/postgresql', 'postgres://localhost/db?host=/run/postgresql'],
    ['postgresql://u@/db?host=/run/postgresql', 'postgresql://u@localhost/db?host=/run/postgresql'],
    ['postgres://?host=/run/postgresql', 'postgres://localhost?host=/run/postgresql'],
    ['postgres://u@?host=/run/postgresql', 'postgres://u@localhost?host=/run/postgresql'],
    [
      'postgres://u:p@/db?host=%2Fcloudsql%2Fone&port=5433',
      'postgres://u:p@localhost/db?host=%2Fcloudsql%2Fone&port=5433',
    ],
  ])('accepts %s, which names a Unix socket', (url, expected) => {
    expect(loadConfig({ DATABASE_URL: url }).backend).toMatchObject({ kind: 'server', url: expected });
  });

  it('turns off development features in production unless they are set', () => {
    expect(loadConfig({ NODE_ENV: 'production' })).toMatchObject({
      production: true,
      introspection: false,
      explorer: false,
      corsOrigins: [],
      backend: { kind: 'embedded', sampleAnimals: false, developmentKeys: false },
    });
    const overridden = {
      NODE_ENV: 'production',
      INTROSPECTION: 'true',
      EXPLORER: 'true',
      CORS_ORIGINS: 'https://a.example',
    };
    expect(loadConfig(overridden)).toMatchObject({
      introspection: true,
      explorer: true,
      corsOrigins: ['https://a.example'],
    });
  });

  it('treats empty variables as unset', () => {
    expect(loadConfig({ PORT: '', DATABASE_URL: '', CORS_ORIGINS: '', LOG_LEVEL: '', HOST: undefined })).toEqual(
      loadConfig({}),
    );
  });

  it('ignores the variables of other programs', () => {
    expect(loadConfig({ PATH: '/bin', port: '1', __proto__x: '1' })).toEqual(loadConfig({}));
  });
});

describe('a wrong setting', () => {
  function refusalOf(env: Record<string, string>): ConfigError {
    try {
      loadConfig(env);
    } catch (error) {
      if (error instanceof ConfigError) return error;
      throw error;
    }
    throw new Error('nothing was refused');
  }

  it.each([
    ['PORT', 'http', '0 to 65535'],
    ['PORT', '-1', '0 to 65535'],
    ['PORT', '65536', '0 to 65535'],
    ['PORT', '4000.5', '0 to 65535'],
    ['PORT', '4e3', '0 to 65535'],
    ['PORT', ' 4000', '0 to 65535'],
    ['METRICS_PORT', '70000', '0 to 65535'],
    ['DATABASE_POOL', '0', 'from 1'],
    ['DATABASE_POOL', 'many', 'from 1'],
    ['DATABASE_PREPARE', 'yes', 'true or false'],
    ['NODE_ENV', 'prod', 'development, production, test'],
    ['INTROSPECTION', '1', 'true or false'],
    ['EXPLORER', 'TRUE', 'true or false'],
    ['TRUST_PROXY', 'on', 'true or false'],
    ['TRUSTED_DOCUMENTS_ONLY', 'yes', 'true, false, report'],
    ['SAMPLE_DATA', 'no', 'true or false'],
    ['CORS_ORIGINS', '*', 'https://app.example.com'],
    ['CORS_ORIGINS', 'app.example.com', 'https://app.example.com'],
    ['CORS_ORIGINS', 'https://app.example.com/', 'https://app.example.com'],
    ['CORS_ORIGINS', 'https://a.example,https://b.example/path', 'https://app.example.com'],
    ['CORS_ORIGINS', ' ', 'not be blank'],
    ['CORS_ORIGINS', ',', 'https://app.example.com'],
    ['CORS_ORIGINS', 'https://*.*.example.com', 'https://app.example.com'],
    ['CORS_ORIGINS', 'https://*', 'https://app.example.com'],
    ['CORS_ORIGINS', 'https://app*.example.com', 'https://app.example.com'],
    ['CORS_ORIGINS', 'https://app.*.example.com', 'https://app.example.com'],
    ['CORS_ORIGINS', 'https://*.Example.com', 'https://app.example.com'],
    ['CORS_HEADERS', '  ', 'not be blank'],
    ['CORS_HEADERS', 'X-Trace-Id: 1', 'names of headers'],
    ['CORS_HEADERS', 'X-Trace-Id,Größe', 'names of headers'],
    ['HOST', ' ', 'not be blank'],
    ['DATA_DIR', '\t', 'not be blank'],
    ['KEYS_ACTOR', '\u00a0', 'not be blank'],
    ['LOG_LEVEL', 'verbose', 'trace, debug, info, warn, error, fatal, silent'],
    ['BAN_AFTER', '-1', 'from 0'],
    ['BROWNOUTS', '2030-11-05T09:00Z', 'starts and durations such as'],
    ['BROWNOUTS', '2030-11-05T09:00Z/PT', 'starts and durations'],
    ['BROWNOUTS', '2030-11-05T09:00/PT15M', 'starts and durations'],
    ['BROWNOUTS', '2030-13-05T09:00Z/PT15M', 'starts and durations'],
    ['BROWNOUTS', '2030-11-05T09:00Z/PT0M', 'starts and durations'],
    ['BROWNOUTS', '2030-02-30T09:00Z/PT15M', 'starts and durations'],
    ['BROWNOUTS', '2030-11-31T09:00+01:00/PT15M', 'starts and durations'],
    ['BAN_SECONDS', '0', 'from 1'],
    ['BAN_SECONDS', '5m', 'from 1'],
    ['MAX_ROOT_FIELDS', '0', 'from 1'],
    ['MAX_BATCH', '0', 'from 1'],
    ['MAX_BODY_BYTES', '1MB', 'from 1'],
    ['MAX_BODY_BYTES', '0', 'from 1'],
    ['MAX_BODY_BYTES', '67108865', 'to 67108864'],
    ['UPSTREAM_TIMEOUT_MS', '0', 'from 1'],
    ['UPSTREAM_CONNECTIONS', 'x', 'from 1'],
    ['DEFAULT_PLAN', 'gold', 'free, pro, business'],
    ['KEYS_ACTOR', 'ada\nbob', 'without control characters'],
    ['KEY_LOG_DAYS', '0', 'from 1'],
    ['SHUTDOWN_GRACE_MS', '-5', 'from 0'],
    ['SHUTDOWN_GRACE_MS', '99999999999999999999', 'from 0'],
  ])('%s=%s is refused in one line with the value and what is allowed', (name, value, expected) => {
    const { message } = refusalOf({ [name]: value });
    expect(message).toMatch(new RegExp(`^${name} must (?:not )?be `));
    expect(message).toContain(expected);
    expect(message).toContain(JSON.stringify(value));
    expect(message).not.toContain('\n');
  });

  it.each([
    ['DATABASE_URL', 'mysql://gateway:s3cret@db.example/store', 'postgres://'],
    ['DATABASE_URL', 'postgres://gateway:s3cret@one:5432,:two/store', 'postgres://'],
    ['DATABASE_URL', 'postgres://gateway:s3cret@one,two/store?target_session_attrs=standby', 'read-write'],
    ['DATABASE_URL', 'postgres://gateway:s3cret@one/store?sslmode=bogus', 'verify-full'],
    ['DATABASE_URL', 'gateway:s3cret@db.example/store', 'postgres://'],
    ['DATABASE_URL', 'postgres://gateway:s3cret%@db.example/store', '% is written as %25'],
    ['DATABASE_URL', 'postgres://gateway:s3cret%zz@db.example/store', '% is written as %25'],
    ['DATABASE_URL', 'postgres://gateway:s3cret@db.example?dbname=store', 'no dbname'],
    ['DATABASE_URL', 'postgres://gateway:s3cret@db.example/store?hostaddr=10.0.0.1', 'hostaddr'],
    ['DATABASE_URL', 'postgres://gateway@one/store?host=/s3cret,/cret', 'only one host parameter'],
    ['DATABASE_URL', 'postgres://gateway@one/store postgres://gateway:s3cret@one/store', 'a space as %20'],
    ['DATABASE_URL', 'postgres://gateway@one/store\npostgres://gateway:s3cret@one/store', 'a space as %20'],
    ['DATABASE_URL', 'postgres://gateway:s3 cret@db.example:99999/store', 'postgres://'],
    ['UPSTREAM_URL', 'ftp://gateway:s3cret@store.example/v1', 'https://'],
    ['UPSTREAM_URL', 's3cret', 'https://'],
    ['UPSTREAM_URL', 'https://gateway:s3cret@store.example/v1', 'without user'],
    ['UPSTREAM_URL', 'https://store.example/v1?key=s3cret', 'without user, query'],
    ['UPSTREAM_URL', 'https://store.example/v1\nhttps://gateway:s3cret@store.example/v1', 'https://'],
    ['REDIS_URL', 'http://:s3cret@redis.example', 'redis://'],
    ['REDIS_URL', 'redis+sentinel://one/name\nredis+sentinel://:s3cret@one/name', 'redis://'],
    ['REDIS_URL', 'redis://:s3cret@redis.example/store', 'redis://'],
    ['REDIS_URL', 'redis://:%zzs3cret@redis.example/0', 'redis://'],
    ['REDIS_URL', 'redis://:s3cret@redis.example?tls=true', 'with rediss for TLS, without a query'],
    ['REDIS_URL', 'redis+cluster://:s3cret@one,two/0?db=3', 'without a query'],
    ['REDIS_URL', 's3cret', 'redis://'],
  ])('%s=%s is refused without showing a value that may contain a password', (name, value, expected) => {
    const { message } = refusalOf({ [name]: value });
    expect(message).toMatch(new RegExp(`^${name} must (?:not )?be `));
    expect(message).toContain(expected);
    expect(message).not.toMatch(/s3|cret|db\.example|\n/);
  });

  it.each([
    ['DATABASE_URL', 'mysql://s3cret', 'postgres://'],
    ['REDIS_URL', 'http://s3cret', 'redis://'],
  ])('%s is named with its suffix if a file holds it', (name, value, expected) => {
    const { message } = refusalOf({ [name]: value, [`${name}_FILE`]: '/run/secrets/url' });
    expect(message).toMatch(new RegExp(`^${name}_FILE must be .*${expected}`));
    expect(message).not.toContain('s3cret');
  });

  it('is refused in one line even if it contains line breaks', () => {
    expect(refusalOf({ LOG_LEVEL: 'info\nPORT must be 4000' }).message).not.toContain('\n');
  });

  it('is METRICS_PORT if it equals PORT', () => {
    expect(refusalOf({ PORT: '4107', METRICS_PORT: '4107' }).message).toMatch(/^METRICS_PORT must be another port/);
    expect(loadConfig({ PORT: '0', METRICS_PORT: '0' }).metricsPort).toBe(0);
  });

  it('is UPSTREAM_URL if DATABASE_URL is set', () => {
    const { message } = refusalOf({ DATABASE_URL, UPSTREAM_URL: 'https://store.example/v1' });
    expect(message).toMatch(/UPSTREAM_URL.*DATABASE_URL/);
    expect(message).not.toMatch(/s3cret|example|\n/);
    const fromFile = { DATABASE_URL, DATABASE_URL_FILE: 'secret', UPSTREAM_URL: 'https://store.example/v1' };
    expect(refusalOf(fromFile).message).toMatch(/UPSTREAM_URL and DATABASE_URL_FILE are both set/);
  });
});
