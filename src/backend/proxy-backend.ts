import { createLearnedAccess } from '../access/learned-access.js';
import { createMemoryLedger } from '../access/memory-ledger.js';
import type { ProxyConfig } from '../config.js';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import { createBreaker } from '../pets/upstream/breaker.js';
import { createRestPetSource } from '../pets/upstream/rest-pet-source.js';
import { createRetryBudget } from '../pets/upstream/retry-budget.js';
import { createUpstreamClient } from '../pets/upstream/upstream-client.js';
import { unavailable } from '../pets/upstream/upstream-errors.js';
import { ADDRESS_CAPACITY, type Backend } from './backend.js';

/** How long a probe may take, in milliseconds. */
const PROBE_TIMEOUT_MS = 1_000;

/** Opens a gateway to another animal store. It connects with the first question. */
export function openProxyBackend(proxy: ProxyConfig, log: Log): Backend {
  const client = createUpstreamClient({ ...proxy, connectTimeoutMs: proxy.timeoutMs });
  const breaker = createBreaker({
    probe,
    onChange: (isOpen) =>
      log.warn(isOpen ? 'the upstream does not answer: it is not asked for now' : 'the upstream is back'),
  });
  return {
    source: createRestPetSource({ client, breaker, budget: createRetryBudget(), timeoutMs: proxy.timeoutMs }),
    access: createLearnedAccess({
      addressLedger: createMemoryLedger({ capacity: ADDRESS_CAPACITY }),
      defaultLedger: createMemoryLedger(),
      defaultPlan: proxy.defaultPlan,
      patienceMs: proxy.timeoutMs,
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
    const sent = client.send({ method: 'GET', path: '/openapi.json', headers: {}, beforeLeaving: () => undefined });
    const timer = setTimeout(() => {
      sent.cancel(new StoreError('upstream_timeout', 'The upstream did not answer in time.'));
    }, PROBE_TIMEOUT_MS);
    const { status } = await sent.answer
      .catch((cause: unknown) => {
        throw cause instanceof StoreError ? cause : unavailable(cause);
      })
      .finally(() => clearTimeout(timer));
    if (status >= 500) throw unavailable();
  }
}
