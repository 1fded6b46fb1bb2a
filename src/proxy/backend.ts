import { createMemoryLedger } from '../access/memory-ledger.js';
import { ADDRESS_CAPACITY } from '../access/session.js';
import type { Backend } from '../backend.js';
import { ConfigError, type ProxyConfig } from '../config.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { readPackage, SERVICE_NAME } from '../observability/package.js';
import { createRedisCooldowns } from '../redis/redis-cooldowns.js';
import { nameAddress, shareLedger } from '../redis/redis-ledger.js';
import type { RedisLink } from '../redis/redis-link.js';
import { createProxyAccess } from './access.js';
import { createBreaker } from './breaker.js';
import { createUpstreamClient, type Outcome } from './client.js';
import { createKeys } from './keys.js';
import { createRestPetSource } from './source.js';
import { fromAnswer, isAnimalStore, timedOut, unavailable } from './wire.js';

/** The longest time for a check, in milliseconds, so that the upstream's recovery is detected soon. */
const MAX_CHECK_MS = 2_500;
const CHECKED_PATH = '/pets?limit=1';

/** Opens the backend for proxy mode. It connects with the first request. */
export function openProxyBackend(proxy: ProxyConfig, log: Log, metrics: Metrics, redis?: RedisLink): Backend {
  const { url, timeoutMs, defaultPlan } = proxy;
  const observe = metrics.watchUpstream(() => ({ ...client.load(), isBreakerOpen: breaker.isOpen }));
  const client = createUpstreamClient({ ...proxy, connectTimeoutMs: timeoutMs, observe });
  const breaker = createBreaker((isOpen) =>
    log.warn(isOpen ? 'the upstream does not answer: it is not asked for now' : 'the upstream is back'),
  );
  const userAgent = `${SERVICE_NAME}/${readPackage().version}`;
  return {
    source: createRestPetSource({ client, breaker, timeoutMs, userAgent }),
    access: createProxyAccess({
      keys: createKeys(),
      addressLedger: shareLedger(redis, createMemoryLedger({ capacity: ADDRESS_CAPACITY }), (address) =>
        nameAddress('animals:proxy:address:', address),
      ),
      defaultPlan,
      defaultLedger: shareLedger(redis, createMemoryLedger(), (digest) => `animals:proxy:key:{${digest}}`),
      cooldowns: redis && { ...createRedisCooldowns(redis), end: () => undefined },
      observer: metrics.admissions,
    }),
    isStore: false,
    // The upstream decides how long an answer takes. A request that has waited half of its time limit rarely succeeds.
    lateMs: timeoutMs / 2,
    check,
    close: () => client.close(),
  };

  /**
   * Asks the upstream for an animal without a key. An animal store answers with a list, or refuses the request.
   * @throws StoreError if the upstream is unavailable
   * @throws ConfigError if it is no animal store
   */
  async function check(): Promise<undefined> {
    const outcome = await ask();
    if (outcome.kind !== 'answer') {
      breaker.failed();
      throw unavailable(outcome.error.cause ?? outcome.error);
    }
    breaker.succeeded();
    const { status } = outcome;
    if (status >= 500) throw unavailable(fromAnswer(outcome));
    if (isAnimalStore(outcome)) return;
    const path = new URL(url).pathname;
    const hint = path.endsWith('/v1') || path.endsWith('/v1/') ? '' : ' Its path should probably end in /v1.';
    throw new ConfigError(`UPSTREAM_URL ${url} is no animal store: GET ${CHECKED_PATH} was answered with ${status}.${hint}`);
  }

  function ask(): Promise<Outcome> {
    return new Promise((resolve) => {
      const headers = ['accept', 'application/json', 'user-agent', userAgent];
      const attempt = client.send({
        keyId: '',
        requestId: 'check',
        method: 'GET',
        path: CHECKED_PATH,
        headers,
        onSend: () => undefined,
        onOutcome(outcome) {
          clearTimeout(timer);
          resolve(outcome);
        },
      });
      const timer = setTimeout(() => attempt.cancel(timedOut()), Math.min(timeoutMs, MAX_CHECK_MS));
    });
  }
}
