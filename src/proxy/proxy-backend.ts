import { openLimitsFile } from '../access/limits-file.js';
import { createMemoryLedger } from '../access/memory-ledger.js';
import { ADDRESS_CAPACITY, nameAddress, type Backend } from '../backend.js';
import type { ProxyConfig } from '../config.js';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Tracer } from '../observability/tracing.js';
import { createRedisCooldowns } from '../redis/redis-cooldowns.js';
import { createRedisLedger } from '../redis/redis-ledger.js';
import type { RedisLink } from '../redis/redis-link.js';
import { createBreaker } from './breaker.js';
import { UNSHARED_COOLDOWNS } from './cooldown.js';
import { createKeyStates } from './key-state.js';
import { createKeyTrials } from './key-trials.js';
import { createProxyAccess } from './proxy-access.js';
import { createRequestIds } from './request-ids.js';
import { createRestPetSource } from './rest-pet-source.js';
import { createRetryBudget } from './retry-budget.js';
import { createUpstreamClient } from './upstream-client.js';
import { unavailable } from './upstream-errors.js';
import { createUpstreamDescription } from './upstream-span.js';

/** The longest time for a probe of the upstream, so that its recovery is detected soon. */
const MAX_PROBE_MS = 2_500;

/** Opens the backend for proxy mode. It connects with the first request. */
export async function openProxyBackend(
  proxy: ProxyConfig,
  log: Log,
  metrics: Metrics,
  tracer: Tracer,
  redis?: RedisLink,
): Promise<Backend> {
  const { url, timeoutMs, defaultPlan } = proxy;
  const observer = metrics.watchUpstream(() => ({ ...client.load(), isBreakerOpen: breaker.isOpen }));
  const ids = createRequestIds();
  const clientOptions = { ...proxy, connectTimeoutMs: timeoutMs, ids, observe: observer?.observe };
  const client = createUpstreamClient(clientOptions);
  // Probes have a connection of their own, so that they wait for no request.
  const probeClient = createUpstreamClient({ ...clientOptions, connections: 1 });
  const breaker = createBreaker({
    probe: probeUpstream,
    onChange: (isOpen) =>
      log.warn(isOpen ? 'the upstream does not answer: it is not asked for now' : 'the upstream is back'),
  });
  const keys = createKeyStates();
  const addressLedger = createMemoryLedger({ capacity: ADDRESS_CAPACITY });
  const defaultLedger = createMemoryLedger();
  const limitsFile =
    redis || defaultPlan === undefined ? undefined : await openLimitsFile(proxy.limitsFile, defaultLedger, log);
  const shared = redis && {
    addressLedger: createRedisLedger({
      link: redis,
      local: addressLedger,
      nameOf: (address) => nameAddress('animals:proxy:address:', address),
    }),
    defaultLedger: createRedisLedger({
      link: redis,
      local: defaultLedger,
      nameOf: (digest) => `animals:proxy:key:{${digest}}`,
    }),
    cooldowns: createRedisCooldowns(redis),
  };
  return {
    source: createRestPetSource({
      client,
      breaker,
      keys,
      budget: createRetryBudget(),
      timeoutMs,
      describe: createUpstreamDescription(url),
      tracer,
    }),
    access: createProxyAccess({
      keys,
      trials: createKeyTrials(),
      addressLedger,
      defaultLedger,
      cooldowns: UNSHARED_COOLDOWNS,
      ...shared,
      defaultPlan,
      probeWaitMs: timeoutMs,
      observer: metrics.admissions,
    }),
    isStore: false,
    // The upstream decides how long an answer takes. A request that has waited half of its time limit rarely succeeds.
    loadShedding: { budgetMs: timeoutMs / 2, crowdBudgetMs: timeoutMs / 2 },
    check: () => (breaker.isOpen ? Promise.reject(unavailable()) : probeUpstream()),
    close: async () => {
      breaker.close();
      await Promise.all([client.close(), probeClient.close(), limitsFile?.close()]);
    },
  };

  /** Requests the interface description, which needs no key. Any answer below 500 will do. */
  async function probeUpstream(): Promise<undefined> {
    const attempt = probeClient.send({
      method: 'GET',
      path: '/openapi.json',
      headers: {},
      requestId: 'probe',
      keyId: '',
      beforeSending: () => undefined,
    });
    const tooLate = new StoreError('upstream_timeout', 'The upstream did not answer in time.');
    const timer = setTimeout(() => attempt.cancel(tooLate), Math.min(timeoutMs, MAX_PROBE_MS));
    const outcome = await attempt.outcome;
    clearTimeout(timer);
    if (outcome instanceof Error) throw outcome instanceof StoreError ? outcome : unavailable(outcome);
    if (outcome.status >= 500) throw unavailable();
    return undefined;
  }
}
