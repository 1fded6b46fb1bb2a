import { z } from 'zod';
import { parseBrownout, type Brownout } from './pets/removal.js';
import { parseRedisUrl } from './redis-url.js';
import { databaseUrl, flag, integer, oneOf, UNPRINTABLE } from './setting-types.js';

/** White space means nothing, so it is a mistake. */
const text = z.string().refine((value) => value.trim() !== '', 'must not be blank');

/** A list separated by commas or white space. */
function list(isValid: (entry: string) => boolean, expected: string) {
  return text
    .transform((text) => text.match(/[^\s,]+/g) ?? [])
    .refine((entries) => entries.length > 0 && entries.every(isValid), `must be comma-separated ${expected}`);
}

/** A `*` stands for one label of a host. */
function isOrigin(text: string): boolean {
  const host = text.replace('://*.', '://label.');
  return !host.includes('*') && URL.canParse(host) && new URL(host).origin === host;
}

/** The program would not send the other parts of a URL upstream. */
function isUpstreamUrl(text: string): boolean {
  if (!URL.canParse(text) || /\s/.test(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return ['http:', 'https:'].includes(protocol) && username + password + search + hash === '';
}

/** https://www.rfc-editor.org/rfc/rfc9110#section-5.1 */
function isHeaderName(text: string): boolean {
  return /^[\w!#$%&'*+.^`|~-]+$/.test(text);
}

const ENVIRONMENT = z
  .object({
    PORT: integer(0, 65_535).default(4_000),
    HOST: text.default('127.0.0.1'),
    DATABASE_URL: databaseUrl.optional(),
    DATABASE_URL_FILE: z.string().optional(),
    DATA_DIR: text.default('.data'),
    UPSTREAM_URL: z
      .string()
      .trim()
      .refine(isUpstreamUrl, 'must be a URL such as https://host/v1, without user, query and fragment')
      .optional(),
    DATABASE_POOL: integer(1, 1_000).default(10),
    DATABASE_PREPARE: flag.default(true),
    REDIS_URL: z
      .string()
      .trim()
      .refine(
        (text) => parseRedisUrl(text) !== undefined,
        'must be a URL such as redis://user:password@host:6379/0, redis+sentinel://host:26379,host:26379/name or ' +
          'redis+cluster://host:6379,host:6379, or with rediss for TLS, without a query',
      )
      .optional(),
    REDIS_URL_FILE: z.string().optional(),
    REDIS_TIMEOUT_MS: integer(1, 60_000).default(250),
    NODE_ENV: oneOf(['development', 'production', 'test']).optional(),
    INTROSPECTION: flag.optional(),
    EXPLORER: flag.optional(),
    KEY_PAGE: flag.optional(),
    KEY_SELF_ROTATION: flag.default(false),
    MCP: flag.default(true),
    CORS_ORIGINS: list(isOrigin, 'origins such as https://app.example.com').optional(),
    CORS_HEADERS: list(isHeaderName, 'names of headers such as X-Trace-Id').default([]),
    TRUST_PROXY: flag.default(false),
    TRUSTED_DOCUMENTS: z.string().optional(),
    TRUSTED_DOCUMENTS_ONLY: oneOf(['true', 'false', 'report']).default('false'),
    METRICS_PORT: integer(0, 65_535).optional(),
    LOG_LEVEL: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
    BAN_AFTER: integer(0, 1_000_000).default(100),
    BAN_SECONDS: integer(1, 31_536_000).default(300),
    MAX_ROOT_FIELDS: integer(1, 1_000_000).default(100),
    MAX_BATCH: integer(1, 1_000_000).default(20),
    // This is also the limit of all arriving bodies together.
    MAX_BODY_BYTES: integer(1, 67_108_864).default(1_048_576),
    MAX_RESPONSE_BYTES: integer(1_000, 1_073_741_824).default(8_388_608),
    UPSTREAM_TIMEOUT_MS: integer(1, 600_000).default(5_000),
    UPSTREAM_CONNECTIONS: integer(1, 10_000).default(64),
    BROWNOUTS: list(
      (entry) => parseBrownout(entry) !== undefined,
      'starts and durations such as 2030-11-05T09:00Z/PT15M',
    ).default([]),
    DEFAULT_PLAN: oneOf(['free', 'pro', 'business']).optional(),
    MIGRATE: flag.default(true),
    START_TIMEOUT_MS: integer(0, 3_600_000).default(60_000),
    SHUTDOWN_GRACE_MS: integer(0, 3_600_000).default(10_000),
    SAMPLE_DATA: flag.default(true),
    KEY_LOG_DAYS: integer(1, 36_500).optional(),
    KEYS_ACTOR: text
      .refine(
        (text) => text.length <= 100 && !UNPRINTABLE.test(text),
        'must be at most 100 characters, without control characters and line breaks',
      )
      .optional(),
  })
  .refine(({ PORT, METRICS_PORT }) => METRICS_PORT !== PORT || PORT === 0, {
    path: ['METRICS_PORT'],
    error: 'must be another port than PORT',
  })
  .refine(({ TRUSTED_DOCUMENTS, TRUSTED_DOCUMENTS_ONLY }) => TRUSTED_DOCUMENTS || TRUSTED_DOCUMENTS_ONLY === 'false', {
    path: ['TRUSTED_DOCUMENTS_ONLY'],
    error: 'must be false unless TRUSTED_DOCUMENTS names a manifest',
  });

/** What happens to documents that are not trusted, by TRUSTED_DOCUMENTS_ONLY. */
const OTHER_DOCUMENTS = { true: 'refused', report: 'reported', false: 'allowed' } as const;

export const SETTINGS: readonly string[] = Object.keys(ENVIRONMENT.shape);

type Settings = z.output<typeof ENVIRONMENT>;

export type Config = ReturnType<typeof loadConfig>;

export type ProxyConfig = Extract<Config['backend'], { readonly kind: 'proxy' }>;

export type StoreConfig = Exclude<Config['backend'], ProxyConfig>;

/** What stops the start until an operator does something about it. The message is one line and names what is wrong. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/**
 * @param env - the variables. An empty variable counts as absent.
 * @throws ConfigError with the name of the first wrong variable, the expected value and the value it received
 */
export function loadConfig(env: NodeJS.ProcessEnv) {
  const present = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const { data: settings, error } = ENVIRONMENT.safeParse(present);
  if (error) {
    const { path, message } = error.issues[0] as z.core.$ZodIssue;
    const name = String(path[0]);
    const value = name.endsWith('_URL')
      ? 'something else (not shown, it may hold a password)'
      : JSON.stringify(env[name]);
    throw new ConfigError(`${nameOf(name, env)} ${message}, got ${value}`);
  }
  if (settings.UPSTREAM_URL !== undefined && settings.DATABASE_URL !== undefined) {
    const both = `UPSTREAM_URL and ${nameOf('DATABASE_URL', env)}`;
    throw new ConfigError(`${both} are both set, but animals live in one place: unset one of them`);
  }
  const production = settings.NODE_ENV === 'production';
  return {
    host: settings.HOST,
    port: settings.PORT,
    backend: toBackend(settings, production, nameOf('DATABASE_URL', env)),
    redis: settings.REDIS_URL
      ? { url: settings.REDIS_URL, setting: nameOf('REDIS_URL', env), timeoutMs: settings.REDIS_TIMEOUT_MS }
      : undefined,
    production,
    introspection: settings.TRUSTED_DOCUMENTS_ONLY !== 'true' && (settings.INTROSPECTION ?? !production),
    explorer: settings.EXPLORER ?? !production,
    keyPage: settings.KEY_PAGE ?? !production,
    keySelfRotation: settings.KEY_SELF_ROTATION,
    mcp: settings.MCP,
    /** If undefined: Apollo Sandbox and every page from this machine. */
    corsOrigins: settings.CORS_ORIGINS ?? (production ? [] : undefined),
    corsHeaders: settings.CORS_HEADERS,
    trustProxy: settings.TRUST_PROXY,
    trustedDocuments:
      settings.TRUSTED_DOCUMENTS === undefined
        ? undefined
        : { path: settings.TRUSTED_DOCUMENTS, others: OTHER_DOCUMENTS[settings.TRUSTED_DOCUMENTS_ONLY] },
    metricsPort: settings.METRICS_PORT,
    logLevel: settings.LOG_LEVEL,
    bans: { banAfter: settings.BAN_AFTER, banSeconds: settings.BAN_SECONDS },
    limits: {
      maxRootFields: settings.MAX_ROOT_FIELDS,
      maxBatch: settings.MAX_BATCH,
      maxBodyBytes: settings.MAX_BODY_BYTES,
      maxResponseBytes: settings.MAX_RESPONSE_BYTES,
    },
    /** The earliest first. */
    brownouts: settings.BROWNOUTS.map((text) => parseBrownout(text) as Brownout).sort(
      (a, b) => a.start.getTime() - b.start.getTime(),
    ),
    startTimeoutMs: settings.START_TIMEOUT_MS,
    shutdownGraceMs: settings.SHUTDOWN_GRACE_MS,
    keyLogDays: settings.KEY_LOG_DAYS,
    keysActor: settings.KEYS_ACTOR,
  };
}

/** The name under which an operator has set a variable: a file may hold its value. */
function nameOf(name: string, env: NodeJS.ProcessEnv): string {
  return env[`${name}_FILE`] ? `${name}_FILE` : name;
}

/** @param setting - the variable that names the database, for messages */
function toBackend(settings: Settings, production: boolean, setting: string) {
  if (settings.DATABASE_URL !== undefined) {
    return {
      kind: 'server' as const,
      setting,
      url: settings.DATABASE_URL,
      pool: settings.DATABASE_POOL,
      prepare: settings.DATABASE_PREPARE,
      migrate: settings.MIGRATE,
    };
  }
  if (settings.UPSTREAM_URL !== undefined) {
    return {
      kind: 'proxy' as const,
      url: settings.UPSTREAM_URL,
      timeoutMs: settings.UPSTREAM_TIMEOUT_MS,
      connections: settings.UPSTREAM_CONNECTIONS,
      defaultPlan: settings.DEFAULT_PLAN,
    };
  }
  return {
    kind: 'embedded' as const,
    directory: settings.DATA_DIR,
    migrate: settings.MIGRATE,
    sampleAnimals: settings.SAMPLE_DATA && !production,
    developmentKeys: !production,
  };
}
