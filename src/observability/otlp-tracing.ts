import { randomUUID } from 'node:crypto';
import {
  defaultTextMapGetter,
  defaultTextMapSetter,
  diag,
  DiagLogLevel,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Context,
  type Link,
  type Span as OtelSpan,
  type Tracer,
} from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
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
import { readPackageVersion } from './package-version.js';
import type { TracingConfig } from '../tracing-config.js';
import type { Log } from './log.js';
import { createReportingExporter } from './reporting-exporter.js';
import type { Attributes, Span, Tracing } from './tracing.js';

const NAME = 'animal-store-gateway';
/** Characters of one attribute: a path may be as long as a request's head. */
const MAX_VALUE_LENGTH = 1_024;

/**
 * Traces by OpenTelemetry, handed over to a collector in the background. Nothing of it is global: two programs in one
 * process have their own.
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
  const tracer = provider.getTracer(NAME);
  return {
    startServerSpan(headers) {
      const context = PROPAGATOR.extract(ROOT_CONTEXT, headers, defaultTextMapGetter);
      return new RecordedSpan(tracer, tracer.startSpan('HTTP', { kind: SpanKind.SERVER }, context));
    },
    async close(timeoutMs) {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(() => {
          log.warn('not all spans could be handed over in time');
          resolve();
        }, timeoutMs);
      });
      // What the collector did not take has been reported by the exporter.
      const done = provider.shutdown().catch(() => undefined);
      await Promise.race([done, late]);
      clearTimeout(timer);
    },
  };
}

const PROPAGATOR = new W3CTraceContextPropagator();

const KINDS = { client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };

class RecordedSpan implements Span {
  #context: Context | undefined;
  #headers: Record<string, string> | undefined;

  /** @param links - for whatever is started under it */
  constructor(
    private readonly tracer: Tracer,
    private readonly span: OtelSpan,
    private readonly links: Link[] = [],
  ) {}

  get traceId(): string {
    return this.span.spanContext().traceId;
  }

  get isRecording(): boolean {
    return this.span.isRecording();
  }

  get headers(): Readonly<Record<string, string>> {
    if (!this.#headers) {
      this.#headers = {};
      PROPAGATOR.inject(this.#getContext(), this.#headers, defaultTextMapSetter);
    }
    return this.#headers;
  }

  startChild(kind: keyof typeof KINDS, name: string, attributes: Attributes = {}): Span {
    if (!this.isRecording) return this;
    const options = { kind: KINDS[kind], attributes, links: this.links };
    return new RecordedSpan(this.tracer, this.tracer.startSpan(name, options, this.#getContext()));
  }

  link(others: readonly Span[]): void {
    this.span.addLinks(toLinks(others));
  }

  sharedWith(others: readonly Span[]): Span {
    return new RecordedSpan(this.tracer, this.span, toLinks(others));
  }

  rename(name: string): void {
    this.span.updateName(name);
  }

  end(attributes: Attributes = {}, error?: string): void {
    this.span.setAttributes(attributes);
    if (error !== undefined) {
      this.span.setAttribute('error.type', error);
      this.span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.span.end();
  }

  /** What a link to this span says. */
  toLink(): Link {
    return { context: this.span.spanContext() };
  }

  #getContext(): Context {
    return (this.#context ??= trace.setSpan(ROOT_CONTEXT, this.span));
  }
}

function toLinks(spans: readonly Span[]): Link[] {
  return spans.filter((span) => span instanceof RecordedSpan).map((span) => span.toLink());
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

/** Who reports: by OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, or as this program. */
function createResource() {
  const own = { 'service.name': NAME, 'service.version': readPackageVersion(), 'service.instance.id': randomUUID() };
  return defaultResource()
    .merge(resourceFromAttributes(own))
    .merge(detectResources({ detectors: [envDetector] }));
}

/** The libraries say once in a while how many spans did not fit; the exporter's failures are reported apart. */
function warnOfLosses(log: Log): void {
  const ignore = (): void => undefined;
  diag.setLogger(
    { error: ignore, warn: (message) => log.warn(`tracing: ${message}`), info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}
