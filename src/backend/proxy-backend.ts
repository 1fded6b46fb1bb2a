import { createLearnedAccess } from '../access/learned-access.js';
import { createMemoryLedger } from '../access/memory-ledger.js';
import { UNSHARED_QUARANTINES } from '../access/quarantine.js';
import type { ProxyConfig } from '../config.js';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Tracer } from '../observability/tracing.js';
import { createBreaker } from '../pets/upstream/breaker.js';
import { createRestPetSource } from '../pets/upstream/rest-pet-source.js';
import { createRetryBudget } from '../pets/upstream/retry-budget.js';
import { createUpstreamClient } from '../pets/upstream/upstream-client.js';
import type { UpstreamAnswer } from '../pets/upstream/outgoing-request.js';
import { unavailable } from '../pets/upstream/upstream-errors.js';
import { createUpstreamDescription } from '../pets/upstream/upstream-span.js';
import { createRedisLedger } from '../redis/redis-ledger.js';
import type { RedisLink } from '../redis/redis-link.js';
import { createRedisQuarantines } from '../redis/redis-quarantines.js';
import { ADDRESS_CAPACITY, nameAddress, type Backend } from './backend.js';

/** How long a probe may take at the most, in milliseconds: with the pause before it, the upstream's return is seen in time. */
const MAX_PROBE_MS = 2_500;

/** Opens a gateway to another animal store. It connects with the first question. */
export function openProxyBackend(
  proxy: ProxyConfig,
  log: Log,
  metrics: Metrics,
  tracer: Tracer,
  redis?: RedisLink,
): Backend {
  const observer = metrics.watchUpstream(() => ({ ...client.load(), isLeftAlone: breaker.isOpen }));
  const client = createUpstreamClient({ ...proxy, connectTimeoutMs: proxy.timeoutMs, observe: observer?.observe });
  const breaker = createBreaker({
    probe,
    onChange: (isOpen) =>
      log.warn(isOpen ? 'the upstream does not answer: it is not asked for now' : 'the upstream is back'),
  });
  const addressLedger = createMemoryLedger({ capacity: ADDRESS_CAPACITY });
  const defaultLedger = createMemoryLedger();
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
    quarantines: createRedisQuarantines(redis),
  };
  return {
    source: createRestPetSource({
      client,
      breaker,
      budget: createRetryBudget(),
      timeoutMs: proxy.timeoutMs,
      describe: createUpstreamDescription(proxy.url),
      tracer,
    }),
    access: createLearnedAccess({
      addressLedger,
      defaultLedger,
      quarantines: UNSHARED_QUARANTINES,
      ...shared,
      defaultPlan: proxy.defaultPlan,
      patienceMs: proxy.timeoutMs,
      observer: metrics.admissions,
    }),
    isStore: false,
    // How long an answer takes is the upstream's affair; whoever waits longer than this may wait in vain.
    patience: { budgetMs: proxy.timeoutMs / 2, crowdBudgetMs: proxy.timeoutMs / 2 },
    check: () => (breaker.isOpen ? Promise.reject(unavailable()) : probe()),
    close: () => {
      breaker.close();
      return client.close();
    },
  };

  /** Asks for the interface description, which needs no key; any answer will do that is no failure of the server. */
  async function probe(): Promise<void> {
    const outcome = await new Promise<UpstreamAnswer | Error>((settle) => {
      const timer = setTimeout(
        () => {
          sent.cancel(new StoreError('upstream_timeout', 'The upstream did not answer in time.'));
        },
        Math.min(proxy.timeoutMs, MAX_PROBE_MS),
      );
      const sent = client.send({
        method: 'GET',
        path: '/openapi.json',
        headers: {},
        beforeLeaving: () => undefined,
        settle(answer) {
          clearTimeout(timer);
          settle(answer);
        },
      });
    });
    if (outcome instanceof Error) throw outcome instanceof StoreError ? outcome : unavailable(outcome);
    if (outcome.status >= 500) throw unavailable();
  }
}
