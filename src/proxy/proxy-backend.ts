import { Client } from 'undici';
import { ADDRESS_CAPACITY } from '../access/keyless-session.js';
import { openLimitsFile } from '../access/limits-file.js';
import { createMemoryLedger } from '../access/memory-ledger.js';
import type { Backend } from '../backend.js';
import type { ProxyConfig } from '../config.js';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Tracer } from '../observability/tracing.js';
import { createRedisCooldowns } from '../redis/redis-cooldowns.js';
import { nameAddress, shareLedger } from '../redis/redis-ledger.js';
import type { RedisLink } from '../redis/redis-link.js';
import { createBreaker } from './breaker.js';
import { createConnections, parseBaseUrl } from './connections.js';
import { createRequestIds } from './exchange.js';
import { createKeyStates } from './key-state.js';
import { createKeyTrials } from './key-trials.js';
import { createProxyAccess } from './proxy-access.js';
import { createRestPetSource } from './rest-pet-source.js';
import { createUpstreamSpans } from './upstream-span.js';
import { unavailable } from './wire.js';

/** The longest time for a probe of the upstream, so that its recovery is detected soon. */
const MAX_PROBE_MS = 2_500;

/** The longest time for which a key waits for its trial. It needs the rest of its time limit for its request. */
const MAX_TRIAL_WAIT_MS = 2_000;

/** Opens the backend for proxy mode. It connects with the first request. */
export async function openProxyBackend(
  proxy: ProxyConfig,
  log: Log,
  metrics: Metrics,
  tracer: Tracer,
  redis?: RedisLink,
): Promise<Backend> {
  const { url, timeoutMs, defaultPlan } = proxy;
  const { observe } = metrics.watchUpstream(() => ({ ...connections.load(), isBreakerOpen: breaker.isOpen }));
  const ids = createRequestIds();
  const connections = createConnections({ ...proxy, connectTimeoutMs: timeoutMs, ids, observe });
  const { origin, basePath } = parseBaseUrl(url);
  // Probes have a connection of their own, so that they wait for no request.
  const probeMs = Math.min(timeoutMs, MAX_PROBE_MS);
  let isPathReported = false;
  const probeClient = new Client(origin, { connect: { timeout: probeMs } });
  const breaker = createBreaker({
    probe: probeUpstream,
    onChange: (isOpen) =>
      log.warn(isOpen ? 'the upstream does not answer: it is not asked for now' : 'the upstream is back'),
  });
  const keys = createKeyStates();
  const defaultLedger = createMemoryLedger();
  const closeLimitsFile =
    redis || defaultPlan === undefined ? undefined : await openLimitsFile(proxy.limitsFile, defaultLedger, log);
  return {
    source: createRestPetSource({ connections, breaker, timeoutMs, startSpan: createUpstreamSpans(tracer, url) }),
    access: createProxyAccess({
      keys,
      startTrial: createKeyTrials(Math.min(MAX_TRIAL_WAIT_MS, timeoutMs / 2)),
      addressLedger: shareLedger(redis, createMemoryLedger({ capacity: ADDRESS_CAPACITY }), (address) =>
        nameAddress('animals:proxy:address:', address),
      ),
      defaultPlan,
      defaultLedger: shareLedger(redis, defaultLedger, (digest) => `animals:proxy:key:{${digest}}`),
      cooldowns: redis && createRedisCooldowns(redis),
      isUpstreamFailing: () => breaker.isFailing,
      probeWaitMs: timeoutMs,
      observer: metrics.admissions,
    }),
    isStore: false,
    // The upstream decides how long an answer takes. A request that has waited half of its time limit rarely succeeds.
    lateMs: timeoutMs / 2,
    check: () => (breaker.isOpen ? Promise.reject(unavailable()) : probeUpstream()),
    close: async () => {
      breaker.close();
      await Promise.all([connections.close(), probeClient.destroy(), closeLimitsFile?.()]);
    },
  };

  /** Requests the interface description, which needs no key. Any answer but one of a gateway without its server will do. */
  async function probeUpstream(): Promise<undefined> {
    const id = ids.create('probe');
    const startedAt = performance.now();
    let outcome: number | string = 'unreachable';
    try {
      const { statusCode, headers, body } = await probeClient.request({
        method: 'GET',
        path: `${basePath}/openapi.json`,
        headers: { 'x-request-id': id },
        signal: AbortSignal.timeout(probeMs),
      });
      await body.dump();
      outcome = ids.matches(id, headers['x-request-id']?.toString(), statusCode) ? statusCode : 'mismatched';
      if (typeof outcome === 'string' || (outcome >= 502 && outcome <= 504)) throw unavailable();
      if (outcome === 404 && !basePath.endsWith('/v1') && !isPathReported) {
        isPathReported = true;
        log.warn(`UPSTREAM_URL ${url} has no openapi.json: its path should probably end in /v1`);
      }
    } catch (error) {
      throw error instanceof StoreError ? error : unavailable(error);
    } finally {
      observe('GET', outcome, (performance.now() - startedAt) / 1_000);
    }
    return undefined;
  }
}
