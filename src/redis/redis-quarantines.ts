import { createBoundedCache } from '../bounded-cache.js';
import type { Quarantine, SharedQuarantines } from '../access/quarantine.js';
import { QUARANTINE } from './quarantine-script.js';
import { RedisAwayError, type RedisLink } from './redis-link.js';
import { createScript } from './redis-script.js';

/** Quarantines of our own remembered at the most, to be told again when Redis comes back, perhaps empty. */
const CAPACITY = 10_000;

/** Makes the quarantines that all gateways share which use the same Redis. While it is away, each has its own. */
export function createRedisQuarantines(link: RedisLink): SharedQuarantines {
  const script = createScript(link, QUARANTINE);
  const told = createBoundedCache<Quarantine>(CAPACITY);

  link.onUp(() => {
    for (const [keyId, quarantine] of told) void tell(keyId, quarantine);
  });

  return {
    find: (keyId) => (link.isUp ? ask(keyId, 0, false) : undefined),
    share(keyId, quarantine) {
      told.set(keyId, quarantine);
      void tell(keyId, quarantine);
    },
  };

  async function tell(keyId: string, { until, code }: Quarantine): Promise<void> {
    const milliseconds = until - Date.now();
    if (milliseconds <= 0) told.delete(keyId);
    else await ask(keyId, milliseconds, code === 'key_banned');
  }

  async function ask(keyId: string, milliseconds: number, isBan: boolean): Promise<Quarantine | undefined> {
    try {
      const [left = 0, ban] = await script([`animals:proxy:quarantine:{${keyId}}`], [milliseconds, isBan ? 1 : 0]);
      return left > 0 ? { until: Date.now() + left, code: ban === 1 ? 'key_banned' : 'rate_limited' } : undefined;
    } catch (error) {
      if (error instanceof RedisAwayError) return undefined;
      throw error;
    }
  }
}
