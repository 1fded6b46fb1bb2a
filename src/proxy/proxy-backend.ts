import { ADDRESS_CAPACITY } from '../access/session.js';
import { createMemoryLedger } from '../access/memory-ledger.js';
import type { Backend } from '../backend.js';
import type { ProxyConfig } from '../config.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { createRedisCooldowns } from '../redis/cooldowns.js';
import { nameAddress, shareLedger } from '../redis/ledger.js';
import type { RedisClient } from '../redis/client.js';
import { createBreaker } from './breaker.js';
import { createConnections, parseBaseUrl } from './connections.js';
import { createKeyStates } from './key-state.js';
import { createKeyTrials } from './key-trials.js';
import { createProxyAccess } from './proxy-access.js';
import { createRestPetSource } from './rest-pet-source.js';
import { unavailable } from './wire.js';

/** The longest time for which a key waits for its trial. It needs the rest of its time limit for its request. */
const MAX_TRIAL_WAIT_MS = 2_000;

/** Opens the backend for proxy mode. It connects with the first request. */
export function openProxyBackend(proxy: ProxyConfig, log: Log, metrics: Metrics, redis?: RedisClient): Backend {
  const { url, timeoutMs, defaultPlan } = proxy;
  const observe = metrics.watchUpstream(() => ({ ...connections.load(), isBreakerOpen: breaker.isOpen }));
  const connections = createConnections({ ...proxy, connectTimeoutMs: timeoutMs, observe });
  let isPathReported = false;
  const breaker = createBreaker(probeUpstream, (isOpen) =>
    log.warn(isOpen ? 'the upstream does not answer: it is not asked for now' : 'the upstream is back'),
  );
  const keys = createKeyStates();
  const defaultLedger = createMemoryLedger();
  return {
    source: createRestPetSource({ connections, breaker, timeoutMs }),
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
      await connections.close();
    },
  };

  /** Any answer will do but one of a gateway without its server. */
  async function probeUpstream(): Promise<undefined> {
    const outcome = await connections.probe();
    if (outcome.kind !== 'answer') throw unavailable(outcome.error.cause ?? outcome.error);
    if (outcome.status >= 502 && outcome.status <= 504) throw unavailable();
    if (outcome.status === 404 && !isPathReported && !parseBaseUrl(url).basePath.endsWith('/v1')) {
      isPathReported = true;
      log.warn(`UPSTREAM_URL ${url} has no openapi.json: its path should probably end in /v1`);
    }
  }
}
