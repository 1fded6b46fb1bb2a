import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend } from '../backend.js';
import { StoreError, toStoreError } from '../errors.js';
import type { RequestContext, Reply } from '../http/request-context.js';
import type { Metrics } from './metrics.js';

interface BackendState {
  readonly backend: 'available' | 'unavailable' | 'unusable';
  readonly reason?: string;
}

/** Probes that arrive within this time share one check, so that they cost the backend next to nothing. */
const CHECK_LASTS_MS = 1_000;
/** Probes often give up after a second. An outage of the backend must not make `/readyz` that slow. */
const CHECK_TIMEOUT_MS = 500;

/** Where the program is in its life, which `/livez` and `/readyz` tell without a key. */
export function createHealth() {
  let phase: 'starting' | 'ready' | 'shutting down' = 'starting';
  let check: Backend['check'];
  let checkedAt = -Infinity;
  let checking: Promise<BackendState>;

  return {
    setReady(checkBackend: Backend['check']): void {
      check = checkBackend;
      phase = 'ready';
    },
    setDraining(): void {
      phase = 'shutting down';
    },
    isDraining: (): boolean => phase === 'shutting down',
    /** Returns undefined for any other path. */
    handle: (context: RequestContext): Promise<Reply> | Reply | undefined => {
      const { path, search } = context;
      if (path !== '/livez' && path !== '/readyz') return undefined;
      context.route = 'probe';
      requireGet(context);
      return path === '/livez' ? text(200, 'alive') : readiness(new URLSearchParams(search).get('backend') === 'true');
    },
  };

  /**
   * All instances share the backend. If its outage made them unready, a load balancer would have no instance left, and
   * would answer instead of them.
   */
  async function readiness(needsBackend: boolean): Promise<Reply> {
    if (phase !== 'ready') return json(503, { status: phase });
    const state = needsBackend ? await findState() : await Promise.race([findState(), noAnswer()]);
    const isReady = state.backend === 'available' || (state.backend === 'unavailable' && !needsBackend);
    return json(isReady ? 200 : 503, { status: isReady ? 'ready' : 'not ready', ...state });
  }

  function findState(): Promise<BackendState> {
    if (performance.now() - checkedAt >= CHECK_LASTS_MS) {
      checkedAt = performance.now();
      checking = check().then(
        (reason) => (reason === undefined ? { backend: 'available' } : { backend: 'unusable', reason }),
        (error: unknown) => ({ backend: 'unavailable', reason: toStoreError(error).message }),
      );
    }
    return checking;
  }
}

async function noAnswer(): Promise<BackendState> {
  await sleep(CHECK_TIMEOUT_MS, undefined, { ref: false });
  return { backend: 'unavailable', reason: 'The backend does not answer in time.' };
}

/** Creates the handler of `/metrics`. It returns undefined for any other path. */
export function createMetricsPage(metrics: Metrics) {
  return (context: RequestContext): Promise<Reply> | undefined => {
    if (context.path !== '/metrics') return undefined;
    context.route = 'probe';
    requireGet(context);
    return metrics.render().then((body) => text(200, body, metrics.contentType));
  };
}

function requireGet({ method, path }: RequestContext): void {
  if (method === 'GET' || method === 'HEAD') return;
  throw new StoreError('method_not_allowed', `${path} takes GET and HEAD.`, { headers: { Allow: 'GET, HEAD' } });
}

function json(status: number, body: object): Reply {
  return text(status, `${JSON.stringify(body)}\n`, 'application/json; charset=utf-8');
}

function text(status: number, body: string, contentType = 'text/plain; charset=utf-8'): Reply {
  return { status, headers: { 'Content-Type': contentType, 'Cache-Control': 'no-store' }, body };
}
