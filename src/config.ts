import { join } from 'node:path';
import { z } from 'zod';
import { parseRedisUrl } from './redis/redis-client.js';
import { databaseUrl, flag, integer, oneOf, UNPRINTABLE, url } from './setting-types.js';

const ORIGINS = z
  .string()
  .transform((text) => text.match(/[^\s,]+/g) ?? [])
  .refine(
    (origins) => origins.every((origin) => URL.canParse(origin) && new URL(origin).origin === origin),
    'must be comma-separated origins such as https://app.example.com',
  );

const collector = url(['http:', 'https:'], 'must be a URL such as http://localhost:4318');

/** The settings that turn tracing on. The program always reads them. */
const TRACING_SWITCH = {
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: collector.optional(),
  TRUST_TRACEPARENT: flag.default(false),
};

const protocol = z.literal('http/json', 'must be http/json, the one protocol in which traces are sent');

/**
 * The other settings of tracing. The program reads them only if tracing is on, because they may be meant for other
 * programs. https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
 */
const TRACING_ENVIRONMENT = z.object({
  OTEL_SDK_DISABLED: flag.default(false),
  OTEL_TRACES_EXPORTER: oneOf(['otlp', 'none']).default('otlp'),
  OTEL_EXPORTER_OTLP_PROTOCOL: protocol.optional(),
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: protocol.optional(),
  OTEL_TRACES_SAMPLER: oneOf([
    'always_on',
    'always_off',
    'traceidratio',
    'parentbased_always_on',
    'parentbased_always_off',
    'parentbased_traceidratio',
  ]).default('parentbased_always_on'),
  OTEL_TRACES_SAMPLER_ARG: z
    .string()
    .regex(/^(0?\.\d{1,12}|[01](\.0{0,12})?)$/, 'must be a number from 0 to 1')
    .transform(Number)
    .default(1),
  OTEL_BSP_SCHEDULE_DELAY: integer(1, 3_600_000).default(5_000),
  OTEL_BSP_MAX_QUEUE_SIZE: integer(1, 1_000_000).default(2_048),
});

/** What samplers record that take no argument. */
const RATIOS: Readonly<Record<string, number>> = { always_on: 1, always_off: 0 };

const ENVIRONMENT = z.object({
  PORT: integer(0, 65_535).default(4_000),
  HOST: z.string().default('127.0.0.1'),
  DATABASE_URL: databaseUrl(
    'must be a URL such as postgres://user:password@host:5432/database, or with several hosts ' +
      'postgres://user:password@one:5432,two:5432/database?target_session_attrs=read-write',
  ).optional(),
  DATABASE_URL_FILE: z.string().optional(),
  DATA_DIR: z.string().default('.data'),
  UPSTREAM_URL: url(
    ['http:', 'https:'],
    'must be a URL such as https://host/v1, without user, query and fragment',
    // The program would not send the other parts upstream.
    ({ username, password, search, hash }) => username + password + search + hash === '',
  ).optional(),
  DATABASE_POOL: integer(1, 1_000).default(10),
  DATABASE_PREPARE: flag.default(true),
  REDIS_URL: z
    .string()
    .refine(
      (text) => parseRedisUrl(text) !== undefined,
      'must be a URL such as redis://user:password@host:6379/0 or redis+sentinel://host:26379,host:26379/name, or with rediss for TLS',
    )
    .optional(),
  REDIS_URL_FILE: z.string().optional(),
  NODE_ENV: z.enum(['development', 'production', 'test'], 'must be development, production or test').optional(),
  INTROSPECTION: flag.optional(),
  EXPLORER: flag.optional(),
  CORS_ORIGINS: ORIGINS.optional(),
  TRUST_PROXY: flag.default(false),
  TRUSTED_DOCUMENTS: z.string().optional(),
  TRUSTED_DOCUMENTS_ONLY: z.enum(['true', 'false', 'report'], 'must be true, false or report').default('false'),
  METRICS_PORT: integer(0, 65_535).optional(),
  COMPRESSION: flag.default(true),
  LOG_ADDRESS: oneOf(['full', 'network', 'none']).default('full'),
  LOG_LEVEL: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  BAN_AFTER: integer(0, 1_000_000).default(100),
  BAN_SECONDS: integer(1, 31_536_000).default(300),
  MAX_ROOT_FIELDS: integer(1, 1_000_000).default(100),
  MAX_BATCH: integer(1, 1_000_000).default(20),
  MAX_BODY_BYTES: integer(1, 1_073_741_824).default(1_048_576),
  MAX_RESPONSE_BYTES: integer(1_000, 1_073_741_824).default(8_388_608),
  UPSTREAM_TIMEOUT_MS: integer(1, 600_000).default(5_000),
  UPSTREAM_CONNECTIONS: integer(1, 10_000).default(64),
  DEFAULT_PLAN: z.enum(['free', 'pro', 'business'], 'must be free, pro or business').optional(),
  MIGRATE: flag.default(true),
  START_TIMEOUT_MS: integer(0, 3_600_000).default(60_000),
  SHUTDOWN_GRACE_MS: integer(0, 3_600_000).default(10_000),
  SAMPLE_DATA: flag.default(true),
  KEYS_ACTOR: z
    .string()
    .max(100, 'must have at most 100 characters')
    .refine((text) => !UNPRINTABLE.test(text), 'must be a text without control characters and line breaks')
    .optional(),
  ...TRACING_SWITCH,
});

/** What happens to documents that are not trusted, by TRUSTED_DOCUMENTS_ONLY. */
const OTHER_DOCUMENTS = { true: 'refused', report: 'reported', false: 'allowed' } as const;

export const SETTINGS: readonly string[] = Object.keys(ENVIRONMENT.shape);
export const TRACING_SETTINGS: readonly string[] = Object.keys({ ...TRACING_SWITCH, ...TRACING_ENVIRONMENT.shape });

type Environment = Readonly<Record<string, string | undefined>>;
type Settings = z.output<typeof ENVIRONMENT>;

export type Config = ReturnType<typeof loadConfig>;

type BackendConfig = ReturnType<typeof toBackend>;

export type ProxyConfig = Extract<BackendConfig, { readonly kind: 'proxy' }>;

export type StoreConfig = Exclude<BackendConfig, ProxyConfig>;

/** Where traces go, and which requests are recorded. */
export type TracingConfig = NonNullable<ReturnType<typeof toTracing>>;

/** What stops the start until an operator does something about it. The message is one line and names what is wrong. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/**
 * @param env - the variables. An empty variable counts as absent.
 * @throws ConfigError with the name of the first wrong variable, the expected value and the value it received
 */
export function loadConfig(env: Environment) {
  const present = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const settings = parse(ENVIRONMENT, present);
  const tracing = toTracing(settings, present);
  if (settings.UPSTREAM_URL !== undefined && settings.DATABASE_URL !== undefined) {
    throw new ConfigError(
      'UPSTREAM_URL and DATABASE_URL are both set, but animals live in one place: unset one of them',
    );
  }
  if (settings.METRICS_PORT !== undefined && settings.METRICS_PORT !== 0 && settings.METRICS_PORT === settings.PORT) {
    throw new ConfigError(`METRICS_PORT must be another port than PORT, got ${settings.METRICS_PORT} for both`);
  }
  if (settings.TRUSTED_DOCUMENTS === undefined && settings.TRUSTED_DOCUMENTS_ONLY !== 'false') {
    throw new ConfigError(
      `TRUSTED_DOCUMENTS_ONLY is ${settings.TRUSTED_DOCUMENTS_ONLY}, but TRUSTED_DOCUMENTS does not name a manifest`,
    );
  }
  const trustedOnly = settings.TRUSTED_DOCUMENTS_ONLY === 'true';
  const production = settings.NODE_ENV === 'production';
  return {
    host: settings.HOST,
    port: settings.PORT,
    backend: toBackend(settings, production),
    redisUrl: settings.REDIS_URL,
    production,
    introspection: !trustedOnly && (settings.INTROSPECTION ?? !production),
    explorer: settings.EXPLORER ?? !production,
    /** If undefined: Apollo Sandbox and every page from this machine. */
    corsOrigins: settings.CORS_ORIGINS ?? (production ? [] : undefined),
    trustProxy: settings.TRUST_PROXY,
    compression: settings.COMPRESSION,
    trustedDocuments:
      settings.TRUSTED_DOCUMENTS === undefined
        ? undefined
        : { path: settings.TRUSTED_DOCUMENTS, others: OTHER_DOCUMENTS[settings.TRUSTED_DOCUMENTS_ONLY] },
    metricsPort: settings.METRICS_PORT,
    logAddress: settings.LOG_ADDRESS,
    logLevel: settings.LOG_LEVEL,
    bans: { banAfter: settings.BAN_AFTER, banSeconds: settings.BAN_SECONDS },
    limits: {
      maxRootFields: settings.MAX_ROOT_FIELDS,
      maxBatch: settings.MAX_BATCH,
      maxBodyBytes: settings.MAX_BODY_BYTES,
      maxResponseBytes: settings.MAX_RESPONSE_BYTES,
    },
    startTimeoutMs: settings.START_TIMEOUT_MS,
    shutdownGraceMs: settings.SHUTDOWN_GRACE_MS,
    keysActor: settings.KEYS_ACTOR,
    tracing,
  };
}

/** @param env - the variables that are not empty */
function parse<T extends z.ZodType>(schema: T, env: Environment): z.output<T> {
  const { data, error } = schema.safeParse(env);
  if (!error) return data;
  const { path, message } = error.issues[0] as z.core.$ZodIssue;
  const name = String(path[0]);
  throw new ConfigError(`${name} ${message}, got ${shown(name, env[name])}`);
}

function toBackend(settings: Settings, production: boolean) {
  // Several instances may have the same directory, but not the same port.
  const limitsFile = join(settings.DATA_DIR, `limits-${settings.PORT}.json`);
  if (settings.DATABASE_URL !== undefined) {
    return {
      kind: 'server' as const,
      url: settings.DATABASE_URL,
      pool: settings.DATABASE_POOL,
      prepare: settings.DATABASE_PREPARE,
      migrate: settings.MIGRATE,
      limitsFile,
    };
  }
  if (settings.UPSTREAM_URL !== undefined) {
    return {
      kind: 'proxy' as const,
      url: settings.UPSTREAM_URL,
      timeoutMs: settings.UPSTREAM_TIMEOUT_MS,
      connections: settings.UPSTREAM_CONNECTIONS,
      defaultPlan: settings.DEFAULT_PLAN,
      limitsFile,
    };
  }
  return {
    kind: 'embedded' as const,
    directory: settings.DATA_DIR,
    limitsFile: join(settings.DATA_DIR, 'limits.json'),
    migrate: settings.MIGRATE,
    sampleAnimals: settings.SAMPLE_DATA && !production,
    developmentKeys: !production,
  };
}

/** Returns undefined if tracing is off. */
function toTracing(settings: Settings, env: Environment) {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: base, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: exact } = settings;
  const target = exact ?? (base && `${base.replace(/\/+$/, '')}/v1/traces`);
  if (target === undefined) return undefined;
  const tracing = parse(TRACING_ENVIRONMENT, env);
  if (tracing.OTEL_SDK_DISABLED || tracing.OTEL_TRACES_EXPORTER === 'none') return undefined;
  const sampler = tracing.OTEL_TRACES_SAMPLER.replace('parentbased_', '');
  return {
    url: target,
    ratio: RATIOS[sampler] ?? tracing.OTEL_TRACES_SAMPLER_ARG,
    isParentBased: tracing.OTEL_TRACES_SAMPLER !== sampler,
    trustsClients: settings.TRUST_TRACEPARENT,
    scheduledDelayMillis: tracing.OTEL_BSP_SCHEDULE_DELAY,
    maxQueueSize: tracing.OTEL_BSP_MAX_QUEUE_SIZE,
  };
}

/** Formats a value for an error message. URLs may contain passwords, which must not reach a terminal or a log. */
function shown(name: string, value: string | undefined): string {
  if (/_(URL|ENDPOINT)$/.test(name)) return 'something else (not shown, it may hold a password)';
  return JSON.stringify(value);
}
