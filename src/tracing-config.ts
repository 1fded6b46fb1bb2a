import { z } from 'zod';
import { flag, integer, oneOf, url } from './setting-types.js';

/** Where traces go, and which requests are recorded. */
export type TracingConfig = NonNullable<ReturnType<typeof parseTracing>>;

const collector = url(['http:', 'https:'], 'must be a URL such as http://localhost:4318');
const protocol = z.literal('http/json', 'must be http/json, the one protocol in which traces are sent');

/** The settings that turn tracing on. The program always reads them. */
export const TRACING_SWITCH = {
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: collector.optional(),
  TRUST_TRACEPARENT: flag.default(false),
};

/** What samplers record that take no argument. */
const RATIOS: Readonly<Record<string, number>> = { always_on: 1, always_off: 0 };

/**
 * The other settings. The program reads them only if tracing is on, because they may be meant for other programs.
 * https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
 */
const TRACING_ENVIRONMENT = z.object({
  ...TRACING_SWITCH,
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

export const TRACING_SETTINGS: readonly string[] = Object.keys(TRACING_ENVIRONMENT.shape);

/**
 * Returns undefined if tracing is off.
 * @param env - the variables that are not empty. Those of `TRACING_SWITCH` have been validated.
 */
export function parseTracing(env: Readonly<Record<string, string | undefined>>) {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: base, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: exact } = env;
  const target = exact ?? (base && `${base.replace(/\/+$/, '')}/v1/traces`);
  if (target === undefined) return undefined;
  const settings = TRACING_ENVIRONMENT.parse(env);
  if (settings.OTEL_SDK_DISABLED || settings.OTEL_TRACES_EXPORTER === 'none') return undefined;
  const sampler = settings.OTEL_TRACES_SAMPLER.replace('parentbased_', '');
  return {
    url: target,
    ratio: RATIOS[sampler] ?? settings.OTEL_TRACES_SAMPLER_ARG,
    isParentBased: settings.OTEL_TRACES_SAMPLER !== sampler,
    trustsClients: settings.TRUST_TRACEPARENT,
    scheduledDelayMillis: settings.OTEL_BSP_SCHEDULE_DELAY,
    maxQueueSize: settings.OTEL_BSP_MAX_QUEUE_SIZE,
  };
}
