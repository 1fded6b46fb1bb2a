import { ExportResultCode } from '@opentelemetry/core';
import type { SpanExporter } from '@opentelemetry/sdk-trace';
import type { Log } from './log.js';

/** While spans are lost, it is said again after so long, in milliseconds. */
const REMIND_MS = 60_000;

/** Says in the log when spans get lost because the collector does not take them, and when it does again. */
export function createReportingExporter(exporter: SpanExporter, log: Log): SpanExporter {
  let lost = 0;
  let isFailing = false;
  let toldAt = -Infinity;

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
    toldAt = -Infinity;
    log.warn({ lost }, 'the trace collector takes spans again');
    lost = 0;
  }

  function failed(spans: number, error: Error | undefined): void {
    isFailing = true;
    lost += spans;
    const now = performance.now();
    if (now - toldAt < REMIND_MS) return;
    toldAt = now;
    log.warn({ lost, reason: describe(error) }, 'the trace collector does not take spans: they are lost');
  }
}

/** Why, in a line: of the answer of a collector only the status. */
function describe(error: (Error & { readonly code?: unknown }) | undefined): string {
  if (!error) return 'unknown';
  const { code, message } = error;
  return typeof code === 'string' || typeof code === 'number' ? `${code} ${message}` : message;
}
