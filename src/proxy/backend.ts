import { createMemoryLedger } from '../access/memory-ledger.js';
import { ADDRESS_CAPACITY } from '../access/session.js';
import type { Backend, Sharing } from '../backend.js';
import { ConfigError, type ProxyConfig } from '../config.js';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { NAME, VERSION } from '../observability/package.js';
import { createCall } from '../pets/pet-source.js';
import { createProxyAccess } from './access.js';
import type { Result } from './batch.js';
import { createBreaker } from './breaker.js';
import { createUpstreamClient } from './client.js';
import { createKeys } from './keys.js';
import { createRestPetSource } from './source.js';
import { fromAnswer, parsePets, unavailable, type UpstreamAnswer } from './wire.js';

const CHECKED_PATH = '/pets?limit=1';

/** Opens the backend for proxy mode. */
export function openProxyBackend(proxy: ProxyConfig, log: Log, metrics: Metrics, sharing?: Sharing): Backend {
  const { url, defaultPlan } = proxy;
  const observe = metrics.watchUpstream(
    () => client.load(),
    () => breaker.isOpen,
  );
  const breaker = createBreaker((isOpen) =>
    log.warn(isOpen ? 'the upstream does not answer: it is not asked for now' : 'the upstream is back'),
  );
  const client = createUpstreamClient({ ...proxy, breaker, observe });
  const userAgent = `${NAME}/${VERSION}`;
  const addresses = createMemoryLedger({ capacity: ADDRESS_CAPACITY });
  const keys = createMemoryLedger();
  return {
    source: createRestPetSource(client.ask, userAgent),
    access: createProxyAccess({
      findKey: createKeys(),
      addressLedger: sharing?.ledger(addresses, 'proxy:address') ?? addresses,
      defaultPlan,
      defaultLedger: sharing?.ledger(keys, 'proxy:key') ?? keys,
      cooldowns: sharing?.cooldowns(),
      observer: metrics.admissions,
    }),
    isStore: false,
    check,
    close: () => client.close(),
  };

  /** @throws StoreError, or ConfigError if the upstream is no animal store */
  async function check(): Promise<undefined> {
    const [result] = await client.ask([CHECKED_PATH], {
      call: createCall('check'),
      method: 'GET',
      headers: ['accept', 'application/json', 'user-agent', userAgent],
      read: readCheck,
    });
    if (result instanceof StoreError && result.status >= 500) throw unavailable(result.cause ?? result);
    if (result instanceof Error) throw result;
  }

  /** An animal store answers with a list, or refuses with an Error body. */
  function readCheck(answer: UpstreamAnswer): Result {
    const { status, body } = answer;
    if (status >= 500) return fromAnswer(answer);
    if (status === 200 && parsePets(body)) return [];
    if ([401, 403, 429].includes(status) && fromAnswer(answer).details.body) return [];
    const hint = /\/v1\/?$/.test(url) ? '' : ' Its path should probably end in /v1.';
    return new ConfigError(`UPSTREAM_URL ${url} is no animal store: it answers ${CHECKED_PATH} with ${status}.${hint}`);
  }
}
