import { toStoreError } from '../errors.js';
import type { Exchange, Reply } from '../http/exchange.js';
import type { Metrics } from './metrics.js';

export interface HealthOptions {
  readonly metrics: Metrics;
  /** Whether `/metrics` is served here too. */
  readonly withMetrics: boolean;
  readonly isDraining: () => boolean;
  /** Rejects while the backend does not answer. */
  readonly check: () => Promise<unknown>;
}

/** Answers the three paths of operators, none of which needs a key; undefined for any other path. */
export function createHealthHandler({ metrics, withMetrics, isDraining, check }: HealthOptions) {
  return (exchange: Exchange): Promise<Reply> | undefined => {
    switch (exchange.path) {
      case '/livez':
        exchange.route = 'probe';
        return Promise.resolve(text(200, 'alive'));
      case '/readyz':
        exchange.route = 'probe';
        return readiness();
      case '/metrics':
        if (!withMetrics) return undefined;
        exchange.route = 'probe';
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
