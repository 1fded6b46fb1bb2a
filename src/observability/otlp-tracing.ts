import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { diag, DiagLogLevel, type Exception } from '@opentelemetry/api';
import { globalErrorHandler, setGlobalErrorHandler } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type Sampler,
} from '@opentelemetry/sdk-trace';
import type { TracingConfig } from '../config.js';
import type { Log } from './log.js';
import { readPackage, SERVICE_NAME } from './package.js';
import type { Tracing } from './tracing.js';

/** Longer attributes are cut, in characters. A path may be as long as all headers of a request. */
const MAX_VALUE_LENGTH = 1_024;
/** While spans are lost, the warning is repeated at this interval, in milliseconds. */
const REMIND_MS = 60_000;

/**
 * Creates tracing that exports spans to a collector in the background. It does not register its provider globally, so
 * two programs in one process do not mix their traces.
 */
export function createOtlpTracing(config: TracingConfig, log: Log): Tracing {
  const { scheduledDelayMillis, maxQueueSize } = config;
  const exporter = new OTLPTraceExporter({ url: config.url });
  const provider = new TracerProvider({
    resource: createResource(),
    sampler: createSampler(config),
    spanLimits: { attributeValueLengthLimit: MAX_VALUE_LENGTH },
    spanProcessors: [new BatchSpanProcessor({ exporter, scheduledDelayMillis, maxQueueSize })],
  });
  warnOfLosses(log);
  return {
    tracer: provider.getTracer(SERVICE_NAME),
    async close(timeoutMs) {
      const late = sleep(timeoutMs, 'late' as const, { ref: false });
      const done = provider.shutdown().catch(globalErrorHandler);
      if ((await Promise.race([done, late])) === 'late') log.warn('not all spans could be exported in time');
    },
  };
}

function createSampler({ ratio, isParentBased, trustsClients }: TracingConfig): Sampler {
  const root = new TraceIdRatioBasedSampler(ratio);
  if (trustsClients) return isParentBased ? new ParentBasedSampler({ root }) : root;
  // The sampler decides by the id of the trace. That of a client's trace could have been chosen to be recorded.
  const ofClient: Sampler = {
    shouldSample: (context) => root.shouldSample(context, randomBytes(16).toString('hex')),
    toString: () => `Untrusted{${root.toString()}}`,
  };
  const others = isParentBased ? {} : { remoteParentNotSampled: ofClient };
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

/** Logs why the collector does not accept spans, and the SDK's warnings, such as how many did not fit in the queue. */
function warnOfLosses(log: Log): void {
  let warnedAt = -Infinity;
  setGlobalErrorHandler((error) => {
    const now = performance.now();
    if (now - warnedAt < REMIND_MS) return;
    warnedAt = now;
    log.warn({ reason: describe(error) }, 'the trace collector does not take spans: they are lost');
  });
  const ignore = (): void => undefined;
  diag.setLogger(
    { error: ignore, warn: (message) => log.warn(`tracing: ${message}`), info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}

/** Describes a failure in one line. For a collector's response, it contains only the status. */
function describe(error: Exception): string {
  if (typeof error === 'string') return error;
  return error.code === undefined ? (error.message ?? 'unknown') : `${error.code} ${error.message ?? ''}`;
}
