import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend } from '../backend.js';
import { toStoreError } from '../errors.js';
import type { Page } from '../http/face.js';
import { JSON_TYPE, type Reply } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';
import type { Metrics } from './metrics.js';

interface BackendState {
  readonly backend: 'available' | 'unavailable' | 'unusable';
  readonly reason?: string;
}

/** Requests within this time share one check of the backend. */
const CHECK_LASTS_MS = 1_000;
/** Monitors often give up after a second, so an outage must not make `/readyz` that slow. */
const CHECK_TIMEOUT_MS = 500;

/** Creates what `/livez` and `/readyz` tell. */
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
    findPage: ({ path }: HttpRequest): Page | undefined => {
      if (path === '/livez') return { name: 'probe', isProbe: true, handle: () => toReply(200, 'alive') };
      return path === '/readyz' ? { name: 'probe', isProbe: true, handle: readiness } : undefined;
    },
  };

  /** All instances share the backend. If its outage made them unready, a load balancer would have none left. */
  async function readiness({ search }: HttpRequest): Promise<Reply> {
    if (phase !== 'ready') return toReply(503, { status: phase, reason: `The program is ${phase}.` });
    const needsBackend = new URLSearchParams(search).get('backend') === 'true';
    const state = await (needsBackend ? findState() : Promise.race([findState(), noAnswer()]));
    const isReady = state.backend === 'available' || (state.backend === 'unavailable' && !needsBackend);
    return toReply(isReady ? 200 : 503, { status: isReady ? 'ready' : 'not ready', ...state });
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

/** Creates what finds the page at `/metrics`. */
export function createMetricsPage({ render, contentType }: Metrics) {
  const page: Page = { name: 'probe', handle: async () => toReply(200, await render(), contentType) };
  return ({ path }: HttpRequest): Page | undefined => (path === '/metrics' ? page : undefined);
}

/** @param content - an object is sent as JSON */
function toReply(status: number, content: string | object, type = 'text/plain; charset=utf-8'): Reply {
  const [body, contentType] =
    typeof content === 'string' ? [content, type] : [`${JSON.stringify(content)}\n`, JSON_TYPE];
  return { status, headers: { 'Content-Type': contentType, 'Cache-Control': 'no-store' }, body };
}
