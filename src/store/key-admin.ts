import type { Account, Admission } from '../access/ledger.js';
import { createMemoryLedger } from '../access/memory-ledger.js';
import type { MaybePromise } from '../access/maybe-promise.js';
import { PUBLISHED_LIMITS, type PlanLimits } from '../access/plans.js';
import type { UsageFilter } from '../access/usage.js';
import type { Sharing } from '../backend.js';
import type { Config } from '../config.js';
import { UNPRINTABLE } from '../setting-types.js';
import {
  toKeyAccount,
  type KeyEventFilter,
  type KeyFilter,
  type KeySettings,
  type KeyStore,
  type NewKey,
  type UsedKey,
} from './postgres-key-store.js';
import type { PostgresUsage } from './postgres-usage.js';

/** A key as operators see it. */
export interface KeyStatus extends Omit<UsedKey, 'unbannedAt' | 'previousEndsAt'> {
  /** How many requests are left in each window. Null if they are counted in processes that cannot be asked. */
  readonly left: { readonly minute: number; readonly day: number } | null;
  readonly bannedUntil: Date | null;
}

interface KeyAct {
  readonly id: string;
  readonly actor: string;
}

/** The settings to change. A null label or expiry removes it. */
type KeyUpdate = Partial<Omit<KeySettings, 'limits'> & PlanLimits>;

type KeyRequest = KeyUpdate & Pick<NewKey, 'plan' | 'readOnly'>;

/** Returns what an account has left, uncharged. Undefined if that is not known, as while Redis is unavailable. */
export type Peek = (account: Account) => MaybePromise<Admission | undefined>;

/** Creates the function that reads in Redis what a key has left. */
export function createPeek(sharing: Sharing | undefined, bans: Config['bans']): Peek {
  if (!sharing) return () => undefined;
  const ledger = sharing.ledger(createMemoryLedger({ capacity: 1 }), 'store:key', bans);
  return async (account) => {
    const admission = await ledger.admit(account, 0);
    // After a failure, the ledger has counted here instead.
    return sharing.isUp() ? admission : undefined;
  };
}

/** A key, or a row about one. */
type OfKey = { readonly id: string } | { readonly keyId: string };

const MAX_LABEL = 100;
const DAY_MS = 86_400_000;
/** The keys that the report proposes to clean up. */
const UNUSED: KeyFilter = { active: true, unusedMs: 90 * DAY_MS };
const EXPIRING: KeyFilter = { expiringMs: 30 * DAY_MS };

export type KeyReport = Awaited<ReturnType<KeyAdmin['report']>>;

export type KeyAdmin = ReturnType<typeof createKeyAdmin>;

/** Creates the operations of the `keys` command. Each throws an Error for the operator if the input is wrong. */
export function createKeyAdmin(keys: KeyStore, usage: PostgresUsage, peek: Peek) {
  return {
    create: async ({ actor, readOnly, ...request }: KeyRequest & Pick<KeyAct, 'actor'>) =>
      keys.create({ ...toSettings(request), readOnly }, actor),
    list,
    show: async ({ id }: Pick<KeyAct, 'id'>) => toStatus(await get(id)),
    async update({ actor, id, ...update }: KeyUpdate & KeyAct) {
      const record = await getUnrevoked(id);
      const { plan = record.plan, label = record.label, expiresAt = record.expiresAt } = update;
      // The numbers of the old plan say nothing about a new one.
      const own = plan === 'enterprise' && record.plan === plan ? record.limits : undefined;
      const { perMinute = own?.perMinute, perDay = own?.perDay } = update;
      const settings = toSettings({ ...update, plan, perMinute, perDay });
      const updated = await keys.update(record, { ...settings, label, expiresAt }, actor);
      if (!updated) throw new Error(`${id} was changed by others at the same time: try again`);
      return toStatus(updated);
    },
    async rotate({ actor, id, overlapMs }: KeyAct & { readonly overlapMs: number }) {
      const record = await getUnrevoked(id);
      if (record.expiresAt && record.expiresAt <= new Date())
        throw new Error(`${id} has expired: give it another expiry first`);
      return known(id, await keys.rotate(record, overlapMs, actor));
    },
    async revoke({ actor, id }: KeyAct) {
      const record = await get(id);
      return toStatus(record.revokedAt ? record : known(id, await keys.revoke(id, actor)));
    },
    async delete({ actor, id }: KeyAct) {
      const record = await get(id);
      if (!(await keys.delete(record, actor))) throw new Error(`${id} is not revoked: revoke it first`);
      return toStatus(record);
    },
    unban: async ({ actor, id }: KeyAct) => toStatus(known(id, await keys.unban(id, actor))),
    log: async (filter: KeyEventFilter) => ofKnownKey(await keys.listEvents(filter), filter.id),
    usage: async (filter: UsageFilter) => ofKnownKey(await usage.list(filter), filter.id),
    /** Reads what the page about all keys shows. No list has more than `limit` entries. */
    async report(limit: number) {
      const today = Date.now() - (Date.now() % DAY_MS);
      const month = { since: new Date(today - 29 * DAY_MS), limit };
      const refusals = [];
      for (const row of await usage.listKeys(month, true)) {
        const { keyId, label, plan, refused, lastAt } = requireDates(row);
        const record = await keys.find(keyId);
        const bannedUntil = record ? (await toStatus(record)).bannedUntil : null;
        refusals.push({ keyId, label, plan, refused, lastAt, bannedUntil });
      }
      return {
        limit,
        refused: refusals,
        all: await keys.count({}),
        active: await keys.count({ active: true }),
        days: await usage.listDays(new Date(today - 89 * DAY_MS)),
        used: (await usage.listKeys(month)).map(requireDates),
        unused: await list({ ...UNUSED, limit }),
        allUnused: await keys.count(UNUSED),
        expiring: await list({ ...EXPIRING, limit }),
        allExpiring: await keys.count(EXPIRING),
        deprecated: (await usage.list({ ...month, deprecated: true })).map(requireDates),
      };
    },
  };

  async function list(filter: KeyFilter): Promise<readonly KeyStatus[]> {
    return Promise.all((await keys.list(filter)).map(requireDates).map(toStatus));
  }

  async function get(id: string): Promise<UsedKey> {
    return requireDates(known(id, await keys.find(id)));
  }

  async function getUnrevoked(id: string): Promise<UsedKey> {
    const record = await get(id);
    if (record.revokedAt) throw new Error(`${id} is revoked: create another key`);
    return record;
  }

  /** An empty report on a key may mean that there is no such key. */
  async function ofKnownKey<T extends OfKey>(rows: readonly T[], id: string | undefined): Promise<readonly T[]> {
    // The log remembers deleted keys.
    if (rows.length === 0 && id !== undefined && !(await keys.listEvents({ id, limit: 1 }))[0]) await get(id);
    return rows.map(requireDates);
  }

  async function toStatus(record: UsedKey): Promise<KeyStatus> {
    const { unbannedAt: _, previousEndsAt: __, ...key } = record;
    const admission = await peek(toKeyAccount(record));
    const [minute = 0, day = 0] = admission?.windows.map(({ remaining }) => remaining) ?? [];
    const isBanned = admission?.outcome === 'banned';
    const bannedUntil = isBanned ? new Date(Date.now() + admission.retryAfter * 1_000) : null;
    return { ...key, left: admission ? { minute, day } : null, bannedUntil };
  }
}

/** PostgreSQL has times that are no date of JavaScript, such as `infinity`. Servers refuse a key that has one. */
function requireDates<Row extends OfKey>(row: Row): Row {
  for (const [name, value] of Object.entries<unknown>({ ...row })) {
    if (!(value instanceof Date) || !Number.isNaN(value.getTime())) continue;
    throw new Error(`${'id' in row ? row.id : row.keyId} has no valid date as ${name}: correct it in the database`);
  }
  return row;
}

function known<T>(id: string, found: T | undefined): T {
  if (found === undefined) throw new Error(`there is no key with the id ${JSON.stringify(id)}: list shows the ids`);
  return found;
}

function toSettings(request: KeyRequest): KeySettings {
  const { plan, label = null, expiresAt = null } = request;
  if (label !== null && UNPRINTABLE.test(label))
    throw new Error('--label must not have control characters or line breaks');
  const { length } = Array.from(label ?? '');
  if (label !== null && (length > MAX_LABEL || label.trim() === ''))
    throw new Error(`--label takes 1 to ${MAX_LABEL} characters, not all of them spaces, got ${length}`);
  if (expiresAt && expiresAt <= new Date())
    throw new Error(`--expires takes a date in the future, got ${expiresAt.toISOString()}`);
  return { plan, label, expiresAt, limits: toLimits(request) };
}

function toLimits({ plan, perMinute, perDay }: KeyRequest): PlanLimits {
  if (plan !== 'enterprise') {
    if (perMinute === undefined && perDay === undefined) return PUBLISHED_LIMITS[plan];
    throw new Error(`--per-minute and --per-day are for the enterprise plan; the limits of ${plan} are published`);
  }
  if (perMinute === undefined || perDay === undefined)
    throw new Error('the enterprise plan needs --per-minute and --per-day');
  if (perDay < perMinute)
    throw new Error(`--per-day must be at least --per-minute, got ${perDay} a day and ${perMinute} a minute`);
  return { perMinute, perDay };
}
