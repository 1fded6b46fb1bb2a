import { ExportResultCode } from '@opentelemetry/core';
import type { SpanExporter } from '@opentelemetry/sdk-trace';
import type { Log } from './log.js';

/** While spans are lost, the log repeats the warning after this time, in milliseconds. */
const REMIND_MS = 60_000;

/** Wraps an exporter. It logs when spans are lost because the collector does not take them, and when it takes them again. */
export function createReportingExporter(exporter: SpanExporter, log: Log): SpanExporter {
  let lost = 0;
  let isFailing = false;
  let warnedAt = -Infinity;

  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        if (result.code === ExportResultCode.SUCCESS) succeeded();
        else failed(spans.length, result.error);
        done(result);
      });
    },
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  };

  function succeeded(): void {
    if (!isFailing) return;
    isFailing = false;
    warnedAt = -Infinity;
    log.warn({ lost }, 'the trace collector takes spans again');
    lost = 0;
  }

  function failed(spans: number, error: Error | undefined): void {
    isFailing = true;
    lost += spans;
    const now = performance.now();
    if (now - warnedAt < REMIND_MS) return;
    warnedAt = now;
    log.warn({ lost, reason: describe(error) }, 'the trace collector does not take spans: they are lost');
  }
}

/** Describes a failure in one line. Of a collector's response, this is only the status. */
function describe(error: (Error & { readonly code?: unknown }) | undefined): string {
  if (!error) return 'unknown';
  const { code, message } = error;
  return typeof code === 'string' || typeof code === 'number' ? `${code} ${message}` : message;
}
