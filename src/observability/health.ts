import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend } from '../backend.js';
import { toStoreError } from '../errors.js';
import type { Page } from '../http/route.js';
import { toPage } from '../http/page.js';
import { JSON_TYPE, type Reply } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';
import type { Metrics } from './metrics.js';

/** Requests within this time share one check of the backend. */
const CHECK_LASTS_MS = 1_000;
/** Monitors often give up after a second, so an outage must not make `/readyz` that slow. */
const CHECK_TIMEOUT_MS = 500;
/** With `?backend=true`. A PostgreSQL server that does not answer is reported earlier, with its own reason. */
const BACKEND_TIMEOUT_MS = 3_000;
const NO_ANSWER = { backend: 'unavailable', reason: 'The backend does not answer in time.' };

export function createHealth() {
  let phase: 'starting' | 'ready' | 'shutting down' = 'starting';
  let check: Backend['check'];
  let checkedAt = -Infinity;
  let checking: Promise<{ backend: string; reason: string | undefined }>;
  const pages = new Map<string, Page>([
    ['/livez', { name: 'probe', isProbe: true, handle: () => toReply(200, 'alive') }],
    ['/readyz', { name: 'probe', isProbe: true, handle: readiness }],
  ]);

  return {
    setReady(checkBackend: Backend['check']): void {
      check = checkBackend;
      phase = 'ready';
    },
    setDraining: (): void => void (phase = 'shutting down'),
    isDraining: (): boolean => phase === 'shutting down',
    findPage: ({ path }: HttpRequest) => pages.get(path),
  };

  /** All instances share the backend. If its outage made them unready, a load balancer would have none left. */
  async function readiness(request: HttpRequest): Promise<Reply> {
    const toState = (status: number, state: { readonly status: string; readonly reason: string | undefined }) => {
      const reply = toReply(status, `${JSON.stringify(state)}\n`, JSON_TYPE);
      return toPage(request, reply, state.reason ?? 'The backend is available.', state.status);
    };
    if (phase !== 'ready') return toState(503, { status: phase, reason: `The program is ${phase}.` });
    const needsBackend = new URLSearchParams(request.search).get('backend') === 'true';
    const timeoutMs = needsBackend ? BACKEND_TIMEOUT_MS : CHECK_TIMEOUT_MS;
    const state = await Promise.race([findState(), sleep(timeoutMs, NO_ANSWER, { ref: false })]);
    const isReady = state.backend === 'available' || (state.backend === 'unavailable' && !needsBackend);
    return toState(isReady ? 200 : 503, { status: isReady ? 'ready' : 'not ready', ...state });
  }

  function findState() {
    if (performance.now() - checkedAt >= CHECK_LASTS_MS) {
      checkedAt = performance.now();
      checking = check().then(
        (reason) => ({ backend: reason === undefined ? 'available' : 'unusable', reason }),
        (error: unknown) => ({ backend: 'unavailable', reason: toStoreError(error).message }),
      );
    }
    return checking;
  }
}

export function createMetricsPage({ registry }: Metrics) {
  const handle = async () => toReply(200, await registry.metrics(), registry.contentType);
  const page: Page = { name: 'probe', handle };
  return ({ path }: HttpRequest) => (path === '/metrics' ? page : undefined);
}

function toReply(status: number, body: string, type = 'text/plain; charset=utf-8'): Reply {
  return { status, headers: { 'Content-Type': type, 'Cache-Control': 'no-store' }, body };
}
