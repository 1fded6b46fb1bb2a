import { randomUUID } from 'node:crypto';
import { diag, DiagLogLevel } from '@opentelemetry/api';
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
} from '@opentelemetry/sdk-trace';
import type { TracingConfig } from '../tracing-config.js';
import type { Log } from './log.js';
import { readPackageVersion } from './package-version.js';
import { createReportingExporter } from './reporting-exporter.js';
import { SERVICE_NAME, type Tracing } from './tracing.js';

/** Characters of one attribute: a path may be as long as all headers of a request. */
const MAX_VALUE_LENGTH = 1_024;

/**
 * Creates tracing that exports spans to a collector in the background. It does not register its provider globally, so two
 * programs in one process do not mix their traces.
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
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(() => {
          log.warn('not all spans could be exported in time');
          resolve();
        }, timeoutMs);
      });
      // The exporter has already reported what the collector did not take.
      const done = provider.shutdown().catch(() => undefined);
      await Promise.race([done, late]);
      clearTimeout(timer);
    },
  };
}

function createSampler({ sampler, ratio }: TracingConfig): Sampler {
  switch (sampler) {
    case 'always_on':
      return new AlwaysOnSampler();
    case 'always_off':
      return new AlwaysOffSampler();
    case 'traceidratio':
      return new TraceIdRatioBasedSampler(ratio);
    case 'parentbased_always_on':
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
    case 'parentbased_always_off':
      return new ParentBasedSampler({ root: new AlwaysOffSampler() });
    case 'parentbased_traceidratio':
      return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
  }
}

/** Describes this program, unless OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say otherwise. */
function createResource() {
  const own = {
    'service.name': SERVICE_NAME,
    'service.version': readPackageVersion(),
    'service.instance.id': randomUUID(),
  };
  return defaultResource()
    .merge(resourceFromAttributes(own))
    .merge(detectResources({ detectors: [envDetector] }));
}

/** Logs the warnings of the SDK, such as how many spans did not fit in the queue. The exporter reports its own failures. */
function warnOfLosses(log: Log): void {
  const ignore = (): void => undefined;
  diag.setLogger(
    { error: ignore, warn: (message) => log.warn(`tracing: ${message}`), info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}
