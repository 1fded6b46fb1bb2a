import { ExportResultCode } from '@opentelemetry/core';
import type { SpanExporter } from '@opentelemetry/sdk-trace';
import type { Log } from './log.js';

/** While spans are lost, the warning is repeated at this interval, in milliseconds. */
const REMIND_MS = 60_000;

/** Wraps an exporter and logs when the collector stops accepting spans and when it accepts them again. */
export function createReportingExporter(exporter: SpanExporter, log: Log): SpanExporter {
  let lost = 0;
  /** Undefined while the collector accepts spans. */
  let warnedAt: number | undefined;

  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        if (result.code !== ExportResultCode.SUCCESS) reportLoss(spans.length, result.error);
        else if (warnedAt !== undefined) reportEnd();
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

  function reportEnd(): void {
    log.warn({ lost }, 'the trace collector takes spans again');
    lost = 0;
    warnedAt = undefined;
  }
}

/** Describes a failure in one line. For a collector's response, it contains only the status. */
function describe(error: (Error & { readonly code?: unknown }) | undefined): string {
  if (!error) return 'unknown';
  const { code, message } = error;
  return typeof code === 'string' || typeof code === 'number' ? `${code} ${message}` : message;
}
