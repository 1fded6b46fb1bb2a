import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { diag, DiagLogLevel } from '@opentelemetry/api';
import { ExportResultCode } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type Sampler,
  type SpanExporter,
} from '@opentelemetry/sdk-trace';
import type { TracingConfig } from '../tracing-config.js';
import type { Log } from './log.js';
import { readPackage } from './package.js';
import { SERVICE_NAME, type Tracing } from './tracing.js';

/** Longer attributes are cut, in characters. A path may be as long as all headers of a request. */
const MAX_VALUE_LENGTH = 1_024;
/** While spans are lost, the warning is repeated at this interval, in milliseconds. */
const REMIND_MS = 60_000;

/**
 * Creates tracing that exports spans to a collector in the background. It does not register its provider globally, so
 * two programs in one process do not mix their traces.
 */
export function createOtlpTracing(config: TracingConfig, log: Log): Tracing {
  const exporter = createReportingExporter(new OTLPTraceExporter({ url: config.url }), log);
  const provider = new TracerProvider({
    resource: createResource(),
    sampler: createSampler(config),
    spanLimits: { attributeValueLengthLimit: MAX_VALUE_LENGTH },
    spanProcessors: [new BatchSpanProcessor({ exporter, ...config.batches })],
  });
  warnOfLosses(log);
  return {
    tracer: provider.getTracer(SERVICE_NAME),
    async close(timeoutMs) {
      const late = sleep(timeoutMs, 'late' as const, { ref: false });
      // The exporter has already logged the spans that the collector did not accept.
      const done = provider.shutdown().catch(() => undefined);
      if ((await Promise.race([done, late])) === 'late') log.warn('not all spans could be exported in time');
    },
  };
}

function createSampler({ sampler, ratio, trustsClients }: TracingConfig): Sampler {
  let root: Sampler = new TraceIdRatioBasedSampler(ratio);
  if (sampler.endsWith('always_on')) root = new AlwaysOnSampler();
  if (sampler.endsWith('always_off')) root = new AlwaysOffSampler();
  if (trustsClients) return sampler.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root;
  // A ratio sampler decides by the id of the trace. That of a client's trace could have been chosen to be recorded.
  const ofClient: Sampler = {
    shouldSample: (context, _traceId, ...rest) => root.shouldSample(context, randomBytes(16).toString('hex'), ...rest),
    toString: () => `Untrusted{${root.toString()}}`,
  };
  const others = sampler.startsWith('parentbased_') ? {} : { remoteParentNotSampled: ofClient };
  return new ParentBasedSampler({ root, remoteParentSampled: ofClient, ...others });
}

/** Describes this program, unless OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say otherwise. */
function createResource() {
  const own = {
    'service.name': SERVICE_NAME,
    'service.version': readPackage().version,
    'service.instance.id': randomUUID(),
  };
  return defaultResource()
    .merge(resourceFromAttributes(own))
    .merge(detectResources({ detectors: [envDetector] }));
}

/** Logs the SDK's warnings, such as how many spans did not fit in the queue. The exporter reports its own failures. */
function warnOfLosses(log: Log): void {
  const ignore = (): void => undefined;
  diag.setLogger(
    { error: ignore, warn: (message) => log.warn(`tracing: ${message}`), info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}

/** Wraps an exporter and logs when the collector stops accepting spans and when it accepts them again. */
function createReportingExporter(exporter: SpanExporter, log: Log): SpanExporter {
  let lost = 0;
  /** Undefined while the collector accepts spans. */
  let warnedAt: number | undefined;

  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        if (result.code !== ExportResultCode.SUCCESS) {
          reportLoss(spans.length, result.error);
        } else if (warnedAt !== undefined) {
          log.warn({ lost }, 'the trace collector takes spans again');
          lost = 0;
          warnedAt = undefined;
        }
        done(result);
      });
    },
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  };

  function reportLoss(spans: number, error: Error | undefined): void {
    lost += spans;
    const now = performance.now();
    if (warnedAt !== undefined && now - warnedAt < REMIND_MS) return;
    warnedAt = now;
    log.warn({ lost, reason: describe(error) }, 'the trace collector does not take spans: they are lost');
  }
}

/** Describes a failure in one line. For a collector's response, it contains only the status. */
function describe(error: (Error & { readonly code?: unknown }) | undefined): string {
  if (!error) return 'unknown';
  const { code, message } = error;
  return typeof code === 'string' || typeof code === 'number' ? `${code} ${message}` : message;
}
