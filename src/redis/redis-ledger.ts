import { hash } from 'node:crypto';
import type { Account, Admission, Counts, Ledger } from '../access/ledger.js';
import { banned, findLargestCost, refused, view, type MemoryLedger } from '../access/memory-ledger.js';
import { monotonicNow } from '../clock.js';
import type { Span } from '../observability/tracing.js';
import { ADMIT } from './admit-script.js';
import type { RedisLink } from './redis-link.js';
import { createScript } from './redis-script.js';

/** A smaller change in the difference between the clocks is ignored, so that the end of a window does not move. */
const CLOCK_TOLERANCE_MS = 1_000;

/** Names a client address in Redis, as a hash: Redis should not hold personal data that counting does not need. */
export function nameAddress(prefix: string, address: string): string {
  return `${prefix}{${hash('sha256', address, 'base64url').slice(0, 22)}}`;
}

/**
 * Returns a ledger that all processes with the same Redis share. During an outage, each process counts alone.
 * @param link - without it, the ledger is the local one
 * @param local - counts while Redis is unavailable. It adopts the counts of each reply, so it continues from the last
 * shared counts that this process received.
 * @param nameOf - returns the Redis key of an account; each ledger needs its own key names
 * @param bans - those of the local ledger; without them, nobody is banned
 */
export function shareLedger(
  link: RedisLink | undefined,
  local: MemoryLedger,
  nameOf: (accountId: string) => string,
  { banAfter = Infinity, banSeconds = 0 } = {},
): Ledger {
  if (!link) return local;
  const admitByScript = createScript(link, 'admit', ADMIT);
  const bans = [banAfter === Infinity ? -1 : banAfter, banSeconds * 1_000];
  /** How far the clock of Redis is ahead of `monotonicNow`, in milliseconds. */
  let ahead = 0;

  return {
    findBan: (account) => local.findBan(account),
    admit: (account, cost, span) => (link.isUp ? askRedis(account, cost, span) : local.admit(account, cost)),
  };

  async function askRedis(account: Account, cost: number, span?: Span): Promise<Admission> {
    const known = local.find(account.id);
    const sentAt = monotonicNow();
    const left = (time = 0): number => Math.max(0, Math.round(time - sentAt));
    const windows = account.windows.flatMap(({ name, seconds, limit }, i) => [
      name,
      seconds * 1_000,
      limit,
      known?.used[i] ?? 0,
      left(known?.closesAt[i]),
    ]);
    const key = nameOf(account.id);
    const unbannedAgo = Math.round(sentAt - (account.unbannedAt ?? 0));
    const reply = await admitByScript(
      [key, `${key}:refused`],
      [cost, ...bans, left(known?.bannedUntil), unbannedAgo, ...windows],
      span,
    );
    return reply ? settle(account, cost, reply) : local.admit(account, cost);
  }

  function settle(
    account: Account,
    cost: number,
    [outcome, now = 0, bannedUntil = 0, ...rest]: readonly number[],
  ): Admission {
    const difference = now - monotonicNow();
    if (Math.abs(difference - ahead) > CLOCK_TOLERANCE_MS) ahead = difference;
    const counts = {
      used: account.windows.map((_, i) => rest[2 * i] as number),
      closesAt: account.windows.map((_, i) => toOurs(rest[2 * i + 1] as number)),
      bannedUntil: toOurs(bannedUntil),
    };
    local.adopt(account, counts);
    return toAdmission(account, cost, outcome, counts, toOurs(now));
  }

  function toOurs(time: number): number {
    return time && time - ahead;
  }
}

function toAdmission(
  account: Account,
  cost: number,
  outcome: number | undefined,
  counts: Counts,
  now: number,
): Admission {
  const windows = view(account, counts, now);
  switch (outcome) {
    case 0:
      return { outcome: 'admitted', windows };
    case 1:
      return refused(windows, cost, now);
    case 2:
      return banned(counts, windows, now);
    case 3:
      return { outcome: 'too-large', windows, limit: findLargestCost(account) };
    default:
      throw new Error(`the script knows no outcome ${outcome}`);
  }
}
