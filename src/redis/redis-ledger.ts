import type { Account, Admission, Counts, Ledger } from '../access/ledger.js';
import { view, type MemoryLedger } from '../access/memory-ledger.js';
import { secondsUntil } from '../access/refusals.js';
import { monotonicNow } from '../clock.js';
import type { Span } from '../observability/tracing.js';
import { ADMIT } from './admit-script.js';
import { RedisUnavailableError, type RedisLink } from './redis-link.js';
import { createScript } from './redis-script.js';

export interface RedisLedgerOptions {
  readonly link: RedisLink;
  /** Returns the Redis key of an account. Each ledger needs its own key names. */
  readonly nameOf: (accountId: string) => string;
  /**
   * Counts while Redis is unavailable. It adopts the counts of each reply, so it continues from the last shared counts
   * that this process received.
   */
  readonly local: MemoryLedger;
  /** An account with more refusals than this within a minute is banned. */
  readonly banAfter?: number;
  /** How long a ban lasts. */
  readonly banSeconds?: number;
}

/** A smaller change in the difference between the clocks is ignored, so that the end of a window does not move. */
const CLOCK_TOLERANCE_MS = 1_000;

/** Creates a ledger that all processes with the same Redis share. During an outage, each process counts alone. */
export function createRedisLedger({
  link,
  nameOf,
  local,
  banAfter = Infinity,
  banSeconds = 0,
}: RedisLedgerOptions): Ledger {
  const admitByScript = createScript(link, 'admit', ADMIT);
  const bans = [banAfter === Infinity ? -1 : banAfter, banSeconds * 1_000];
  /** How far the clock of Redis is ahead of `monotonicNow`, in milliseconds. */
  let ahead = 0;

  return {
    findBan: (account) => local.findBan(account),
    admit: (account, cost, span) =>
      link.isUp
        ? askRedis(account, cost, span).catch((error: unknown) => {
            if (error instanceof RedisUnavailableError) return local.admit(account, cost);
            throw error;
          })
        : local.admit(account, cost),
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
    return settle(account, cost, reply);
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
    case 1: {
      const full = windows.filter(({ remaining }) => remaining < cost);
      const retryAfter = Math.max(...full.map(({ resetAt }) => secondsUntil(resetAt, now)));
      return { outcome: 'refused', windows, retryAfter };
    }
    case 2:
      return { outcome: 'banned', windows, retryAfter: secondsUntil(counts.bannedUntil, now) };
    case 3:
      return { outcome: 'too-large', windows, limit: Math.min(...account.windows.map(({ limit }) => limit)) };
    default:
      throw new Error(`the script knows no outcome ${outcome}`);
  }
}
