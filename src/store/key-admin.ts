import { fromWallTime } from '../clock.js';
import type { Account, Admission } from '../access/ledger.js';
import type { CreatedKey, KeyEvent, KeyFilter, KeyRecord, KeySettings, KeyStore } from '../access/key-store.js';
import type { MaybePromise } from '../access/maybe-promise.js';
import { PUBLISHED_LIMITS, toWindows, type Plan } from '../access/plans.js';
import type { DeprecatedCaller, Usage, UsageFilter, UsageReports } from '../access/usage.js';
import { UNPRINTABLE } from '../setting-types.js';

/** A key with its current state. */
export interface KeyStatus extends KeyRecord {
  /** Null if the key was not used for a year. */
  readonly lastUsedAt: Date | null;
  /** How many requests are left in each window. Null if they are counted in processes that cannot be asked. */
  readonly left: { readonly minute: number; readonly day: number } | null;
  readonly bannedUntil: Date | null;
}

/** Who acts, for the log. */
interface Act {
  readonly actor: string;
}

/** An action on one key. */
interface KeyAct extends Act {
  readonly id: string;
}

/** The settings to change. A null label or expiry removes it. */
export interface KeyUpdate extends Partial<Pick<KeySettings, 'label' | 'expiresAt'>> {
  readonly plan?: Plan | undefined;
  readonly perMinute?: number | undefined;
  readonly perDay?: number | undefined;
}

/** The settings of a key to create. */
export interface KeyRequest extends KeyUpdate {
  readonly plan: Plan;
}

/**
 * The operations of the `keys` command. Each takes one object of JSON values and dates, so that it can be sent to
 * another process.
 * @throws Error with a message for the operator, if the input is wrong or there is no such key
 */
export interface KeyAdmin {
  create(request: KeyRequest & Act): Promise<CreatedKey>;
  list(filter: KeyFilter): Promise<readonly KeyStatus[]>;
  show(key: { readonly id: string }): Promise<KeyStatus>;
  update(request: KeyUpdate & KeyAct): Promise<KeyStatus>;
  /** Gives a key a new secret. The old one works for `overlapMs` longer. */
  rotate(request: KeyAct & { readonly overlapMs: number }): Promise<CreatedKey & { readonly previousEndsAt: Date }>;
  revoke(request: KeyAct): Promise<KeyStatus>;
  unban(request: KeyAct): Promise<KeyStatus>;
  log(filter: { readonly id?: string | undefined; readonly limit: number }): Promise<readonly KeyEvent[]>;
  usage(filter: UsageFilter): Promise<readonly Usage[]>;
  deprecated(filter: { readonly since?: Date | undefined }): Promise<readonly DeprecatedCaller[]>;
}

/** The names of all operations. */
export const KEY_OPERATIONS = [
  ...['create', 'list', 'show', 'update', 'rotate', 'revoke', 'unban', 'log', 'usage', 'deprecated'],
] as readonly (keyof KeyAdmin)[];

export interface KeyAdminOptions {
  readonly keys: KeyStore;
  readonly usage: UsageReports;
  /** Returns what an account has left, without charging anything. Undefined if that is not known. */
  readonly peek: (account: Account) => MaybePromise<Admission | undefined>;
}

const MAX_LABEL = 100;
/** How often to read a key again that others change at the same time. */
const UPDATE_ATTEMPTS = 10;

/** Creates the operations on the keys of a store. */
export function createKeyAdmin({ keys, usage, peek }: KeyAdminOptions): KeyAdmin {
  return {
    create: async ({ actor, ...request }) => keys.create(toSettings(request, request.expiresAt), actor),
    async list(filter) {
      if (filter.after !== undefined) await get(filter.after);
      return toStatuses(await keys.list(filter));
    },
    show: async ({ id }) => toStatus(await get(id)),
    async update({ actor, id, ...update }) {
      for (let attempt = 1; attempt <= UPDATE_ATTEMPTS; attempt++) {
        const record = await get(id);
        if (record.revokedAt) throw new Error(`${id} is revoked: create another key`);
        const { plan = record.plan } = update;
        // The numbers of the old plan say nothing about a new one.
        const numbers = plan === 'enterprise' && record.plan === plan ? record.limits : {};
        const { label, expiresAt } = record;
        const settings = toSettings({ label, expiresAt, ...numbers, ...withoutAbsent(update), plan }, update.expiresAt);
        const updated = await keys.update(record, settings, actor);
        if (updated) return toStatus(updated);
      }
      throw new Error(`${id} is being changed by others: try again`);
    },
    async rotate({ actor, id, overlapMs }) {
      const { revokedAt, expiresAt } = await get(id);
      if (revokedAt) throw new Error(`${id} is revoked: create another key`);
      if (expiresAt && expiresAt <= new Date()) throw new Error(`${id} has expired: give it another expiry first`);
      const previousEndsAt = new Date(Math.min(Date.now() + overlapMs, expiresAt?.getTime() ?? Infinity));
      const rotated = (await keys.rotate(id, previousEndsAt, actor)) as CreatedKey;
      return { ...rotated, previousEndsAt };
    },
    async revoke({ actor, id }) {
      const record = await get(id);
      return toStatus(record.revokedAt ? record : ((await keys.revoke(id, actor)) as KeyRecord));
    },
    async unban({ actor, id }) {
      await get(id);
      return toStatus((await keys.unban(id, actor)) as KeyRecord);
    },
    log: (filter) => keys.listEvents(filter).then((events) => ofKnownKey(events, filter.id)),
    usage: (filter) => usage.list(filter).then((sums) => ofKnownKey(sums, filter.id)),
    deprecated: ({ since }) => usage.listDeprecated(since),
  };

  async function get(id: string): Promise<KeyRecord> {
    const record = await keys.find(id);
    if (!record) throw new Error(`there is no key with the id ${JSON.stringify(id)}: list shows the ids`);
    return record;
  }

  /** An empty report on a key may mean that there is no such key. */
  async function ofKnownKey<T>(rows: readonly T[], id: string | undefined): Promise<readonly T[]> {
    if (rows.length === 0 && id !== undefined) await get(id);
    return rows;
  }

  async function toStatuses(records: readonly KeyRecord[]): Promise<KeyStatus[]> {
    const lastUses = await usage.findLastUses(records.map(({ id }) => id));
    return Promise.all(records.map((record) => addState(record, lastUses.get(record.id) ?? null)));
  }

  async function toStatus(record: KeyRecord): Promise<KeyStatus> {
    return (await toStatuses([record]))[0] as KeyStatus;
  }

  async function addState(record: KeyRecord, lastUsedAt: Date | null): Promise<KeyStatus> {
    const { id, limits, unbannedAt } = record;
    const admission = await peek({
      id,
      windows: toWindows(limits),
      unbannedAt: unbannedAt ? fromWallTime(unbannedAt.getTime()) : 0,
    });
    const [minute = 0, day = 0] = admission?.windows.map(({ remaining }) => remaining) ?? [];
    const bannedUntil = admission?.outcome === 'banned' ? new Date(Date.now() + admission.retryAfter * 1_000) : null;
    return { ...record, lastUsedAt, left: admission ? { minute, day } : null, bannedUntil };
  }
}

function withoutAbsent<T extends object>(parts: T): Partial<T> {
  return Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/**
 * Checks the settings of a key.
 * @param newExpiry - the expiry; undefined if the key keeps the one that it had
 */
function toSettings(
  { plan, label = null, perMinute, perDay, expiresAt = null }: KeyRequest,
  newExpiry: Date | null | undefined,
): KeySettings {
  const { length } = Array.from(label ?? '');
  if (label !== null && UNPRINTABLE.test(label))
    throw new Error('--label must not have control characters or line breaks');
  if (label !== null && (length > MAX_LABEL || label.trim() === ''))
    throw new Error(`--label takes 1 to ${MAX_LABEL} characters, not all of them spaces, got ${length}`);
  if (newExpiry && newExpiry <= new Date())
    throw new Error(`--expires takes a date in the future, got ${newExpiry.toISOString()}`);
  return { plan, label, expiresAt, limits: toLimits(plan, perMinute, perDay) };
}

function toLimits(plan: Plan, perMinute: number | undefined, perDay: number | undefined): KeySettings['limits'] {
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
