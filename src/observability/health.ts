import { toStoreError } from '../errors.js';
import type { RequestContext, Reply } from '../http/request-context.js';
import type { Metrics } from './metrics.js';

export interface HealthOptions {
  readonly metrics: Metrics;
  /** Whether `/metrics` is served here too. */
  readonly withMetrics: boolean;
  readonly isDraining: () => boolean;
  /** Rejects while the backend does not answer. */
  readonly check: () => Promise<unknown>;
}

/** Handles `/livez`, `/readyz` and `/metrics`, which need no key. Returns undefined for any other path. */
export function createHealthHandler({ metrics, withMetrics, isDraining, check }: HealthOptions) {
  return (context: RequestContext): Promise<Reply> | undefined => {
    switch (context.path) {
      case '/livez':
        context.route = 'probe';
        return Promise.resolve(text(200, 'alive'));
      case '/readyz':
        context.route = 'probe';
        return readiness();
      case '/metrics':
        if (!withMetrics) return undefined;
        context.route = 'probe';
        return metrics.render().then((body) => text(200, body, metrics.contentType));
      default:
        return undefined;
    }
  };

  async function readiness(): Promise<Reply> {
    if (isDraining()) return text(503, 'shutting down');
    return check().then(
      () => text(200, 'ready'),
      (error: unknown) => text(503, toStoreError(error).message),
    );
  }
}

function text(status: number, body: string, contentType = 'text/plain; charset=utf-8'): Reply {
  return { status, headers: { 'Content-Type': contentType, 'Cache-Control': 'no-store' }, body };
}
