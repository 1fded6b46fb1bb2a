import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Admission } from '../../src/access/ledger.js';
import { formatTable, formatTime, toKeyRows } from '../../src/cli/keys-output.js';
import { renderReport } from '../../src/cli/report.js';
import type { KeyStore } from '../../src/store/postgres-key-store.js';
import type { Database } from '../../src/store/database.js';
import { createKeyAdmin, type KeyAdmin } from '../../src/store/key-admin.js';
import { migrate } from '../../src/store/migrate.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { openPgliteDatabase } from '../../src/store/embedded-store.js';
import { createPostgresKeyStore } from '../../src/store/postgres-key-store.js';
import { createPostgresUsage } from '../../src/store/postgres-usage.js';
import { deleteOldRows } from '../../src/store/pruning.js';
import { createDatabase } from '../support/gateway.js';

describe.each(['PGlite', 'a PostgreSQL server'])('the administration of keys on %s', (kind) => {
  let database: Database;
  let drop: (() => Promise<void>) | undefined;
  let admin: KeyAdmin;
  /** Called once, between reading a key and changing it. */
  let meanwhile: (() => Promise<unknown>) | undefined;
  /** How many keys are looked up at this moment, and the most so far. */
  let lookups = 0;
  let mostLookups = 0;
  /** What each key has left, if Redis tells. */
  let admission: Admission | undefined;

  beforeAll(async () => {
    if (kind === 'PGlite') database = await openPgliteDatabase('memory://');
    else {
      const created = await createDatabase();
      drop = created.drop;
      database = createPgDatabase({ url: created.url, pool: 4, prepare: true });
    }
    await migrate(database);
    const keys = createPostgresKeyStore(database);
    const interrupted: KeyStore = {
      ...keys,
      find(id) {
        mostLookups = Math.max(mostLookups, (lookups += 1));
        return keys.find(id).finally(() => (lookups -= 1));
      },
      async update(...parameters) {
        const work = meanwhile;
        meanwhile = undefined;
        await work?.();
        return keys.update(...parameters);
      },
    };
    admin = createKeyAdmin(interrupted, createPostgresUsage(database), () => admission);
  });
  afterAll(async () => {
    await database.close();
    await drop?.();
  });

  const actor = 'ada';
  const create = async (): Promise<string> => (await admin.create({ plan: 'free', label: 'old', actor })).id;

  it('changes the version of the keys with each change of one, so that servers look them up again', async () => {
    const keys = createPostgresKeyStore(database);
    const before = await keys.findVersion();
    const id = await create();
    expect(await keys.findVersion()).toBe(before);
    const versions = [before];
    for (const change of ['update', 'rotate', 'unban', 'revoke', 'delete'] as const) {
      await admin[change]({ id, actor, label: 'new', overlapMs: 1_000 });
      versions.push(await keys.findVersion());
    }
    expect(versions[0]).toMatch(/^[\da-f-]{36}$/);
    expect(new Set(versions).size).toBe(6);
  });

  it('loses none of several changes at the same time, and logs what each has changed', async () => {
    const id = await create();
    const expiresAt = new Date('2099-01-01T00:00:00.123Z');
    meanwhile = () => admin.update({ id, actor: 'bob', label: 'new' });
    const late = admin.update({ id, actor, plan: 'pro', expiresAt });
    await expect(late).rejects.toThrow('was changed by others at the same time: try again');
    await admin.update({ id, actor, plan: 'pro', expiresAt });
    expect(await admin.show({ id })).toMatchObject({ plan: 'pro', label: 'new', expiresAt });
    const [second, first] = await admin.log({ id, limit: 2 });
    expect(first).toMatchObject({ actor: 'bob', changes: { label: ['old', 'new'] } });
    expect(Object.keys(first?.changes ?? {})).toEqual(['label']);
    expect(Object.keys(second?.changes ?? {}).sort()).toEqual(['expiresAt', 'limits', 'plan']);
  });

  it('changes a key whose expiry has microseconds', async () => {
    const id = await create();
    const text = "UPDATE api_keys SET expires_at = '2099-01-01 00:00:00.123999+00' WHERE id = $1";
    await database.query({ name: '', text }, [id]);
    expect(await admin.update({ id, actor, label: 'new' })).toMatchObject({ label: 'new' });
  });

  it('does not change a key that somebody revokes at the same time', async () => {
    const id = await create();
    meanwhile = () => admin.revoke({ id, actor: 'bob' });
    await expect(admin.update({ id, actor, label: 'new' })).rejects.toThrow('was changed by others');
    expect(await admin.show({ id })).toMatchObject({ label: 'old' });
  });

  it('refuses labels with control characters and line breaks', async () => {
    for (const label of ['\u001b[2J', 'a\nb', 'a\u0085b', 'a\u2028b', 'a\u2029b', 'a\u202eb', 'a\u2066b'])
      await expect(admin.create({ plan: 'free', label, actor })).rejects.toThrow('must not have control characters');
  });

  it('takes labels with the marks of Hebrew and Arabic text, and leaves one alone that others have written', async () => {
    for (const label of ['חנות (א)\u200f', 'a\u200eb', '\u061cمتجر']) {
      const { id } = await admin.create({ plan: 'free', label, actor });
      expect(await admin.update({ id, actor, plan: 'pro' })).toMatchObject({ label });
      const text = "UPDATE api_keys SET label = label || U&'\\202e' WHERE id = $1";
      await database.query({ name: '', text }, [id]);
      expect(await admin.update({ id, actor, plan: 'free' })).toMatchObject({ plan: 'free', label: `${label}\u202e` });
    }
  });

  it('says when the old secret of a key ends that expires during the overlap', async () => {
    const id = await create();
    const expiresAt = new Date(Date.now() + 60_000);
    await admin.update({ id, actor, expiresAt });
    expect((await admin.rotate({ id, actor, overlapMs: 86_400_000 })).previousEndsAt).toEqual(expiresAt);
  });

  it('logs how a rotation changes the end of an overlap', async () => {
    const id = await create();
    const first = (await admin.rotate({ id, actor, overlapMs: 60_000 })).previousEndsAt;
    const second = (await admin.rotate({ id, actor, overlapMs: 0 })).previousEndsAt;
    const third = (await admin.rotate({ id, actor, overlapMs: 3_600_000 })).previousEndsAt;
    const changes = (await admin.log({ id, limit: 3 })).map((event) => event.changes.previousEndsAt);
    expect(changes).toEqual([
      [second.toISOString(), third.toISOString()],
      [first.toISOString(), second.toISOString()],
      [null, first.toISOString()],
    ]);
  });

  describe('finds what to clean up', () => {
    const ids: Record<string, string> = {};
    const DAY = 86_400_000;
    const named = (listed: readonly { readonly label: string | null }[]) => listed.map(({ label }) => label);

    beforeAll(async () => {
      await database.query({ name: '', text: 'DELETE FROM api_keys' }, []);
      for (const [label, age, endsIn] of [
        ['used', 400, 400],
        ['fresh', 1, 20],
        ['<b>old</b>', 100, 10],
        ['older', 200, undefined],
        ['revoked', 250, 10],
        ['expired', 300, -1],
      ] as const) {
        const { id } = await admin.create({ plan: 'free', label, actor });
        ids[label] = id;
        await database.query(
          {
            name: '',
            text: `UPDATE api_keys SET created_at = now() - $2 * interval '1 day', expires_at = now() + $3 * interval '1 day'
                   WHERE id = $1`,
          },
          [id, age, endsIn],
        );
      }
      await admin.revoke({ id: ids.revoked as string, actor });
      await addUsage('used', 89.5, '', 0);
      await addUsage('used', 3, '<i>"Query.pet"</i>', 2);
      await addUsage('<b>old</b>', 90.5, '', 0);
    });

    const addUsage = (label: string, daysAgo: number, deprecated: string, refused: number) =>
      database.query(
        {
          name: '',
          text: `INSERT INTO usage SELECT $1, date_trunc('day', at, 'UTC'), 24, 'web', 'Q', $2, 5, 7, 3, $3, at
                 FROM (SELECT now() - $4 * interval '1 day' AS at) AS times`,
        },
        [ids[label], deprecated, refused, daysAgo],
      );

    it('among keys that nobody has used for a time', async () => {
      const unusedMs = 90 * DAY;
      expect(named(await admin.list({ unusedMs }))).toEqual(['<b>old</b>', 'older', 'revoked', 'expired']);
      expect(named(await admin.list({ unusedMs, active: true }))).toEqual(['<b>old</b>', 'older']);
      expect(named(await admin.list({ unusedMs, active: true, plan: 'pro' }))).toEqual([]);
      expect(named(await admin.list({ unusedMs: 2 * DAY, active: true, limit: 1 }))).toEqual(['<b>old</b>']);
      expect(named(await admin.list({ unusedMs: 91 * DAY, active: true }))).toEqual(['older']);
    });

    it('among keys that expire within a time, the next one first', async () => {
      expect(named(await admin.list({ expiringMs: 30 * DAY }))).toEqual(['<b>old</b>', 'fresh']);
      expect(named(await admin.list({ expiringMs: 15 * DAY }))).toEqual(['<b>old</b>']);
      expect(named(await admin.list({ expiringMs: 30 * DAY, unusedMs: 90 * DAY }))).toEqual(['<b>old</b>']);
    });

    it('and reports it, with the use, growth and refusals of all keys', async () => {
      const report = await admin.report(1);
      expect(report).toMatchObject({ all: 6, active: 4, allUnused: 2, allExpiring: 2 });
      expect(report.days).toHaveLength(90);
      // Four old keys worked then. One of them expired, one is revoked now, and one was added.
      expect(report.days.at(-4)).toMatchObject({ requests: 5, cost: 7, errors: 3, refused: 2, keys: 5 });
      expect(report.days.at(-1)).toMatchObject({ requests: 0, keys: 4 });
      expect([named(report.unused), named(report.expiring)]).toEqual([['<b>old</b>'], ['<b>old</b>']]);
      expect(report.used).toMatchObject([{ keyId: ids.used, label: 'used', plan: 'free', requests: 5, cost: 7 }]);
      expect(report.refused).toMatchObject([{ keyId: ids.used, refused: 2, bannedUntil: null }]);
      expect(report.deprecated).toMatchObject([{ keyId: ids.used, deprecated: '<i>"Query.pet"</i>', requests: 5 }]);
    });

    it('and looks up the keys of the report one after the other, as it may have a single connection', async () => {
      await addUsage('fresh', 3, '', 1);
      await addUsage('older', 3, '', 1);
      mostLookups = 0;
      expect((await admin.report(50)).refused).toHaveLength(3);
      expect(mostLookups).toBe(1);
    });

    it('and renders the report as one page without the markup of strangers', async () => {
      const html = await renderReport(await admin.report(50), 'the store on <host>');
      expect(html).toContain('&#60;b&#62;old&#60;/b&#62;');
      expect(html).toContain('the store on &#60;host&#62;');
      expect(html).toContain('&#60;i&#62;&#34;Query.pet&#34;&#60;/i&#62;');
      expect(html).not.toMatch(/<b>|<i>|\{\{|<script|https?:|undefined|NaN|null/);
    });

    it('and says which keys are banned, and until when', async () => {
      admission = { outcome: 'banned', retryAfter: 600, windows: [] };
      const listed = await admin.list({ limit: 1 });
      const report = await admin.report(1);
      admission = undefined;
      expect(formatTable(toKeyRows(listed))).toMatch(/ left min\/day .*\n.* banned /);
      const bannedUntil = report.refused[0]?.bannedUntil as Date;
      expect(Math.abs(bannedUntil.getTime() - Date.now() - 600_000)).toBeLessThan(10_000);
      expect(await renderReport(report, 'the store')).toContain(formatTime(bannedUntil));
    });

    it('and renders a store without keys', async () => {
      await database.query({ name: '', text: 'DELETE FROM api_keys' }, []);
      await database.query({ name: '', text: 'DELETE FROM usage' }, []);
      const html = await renderReport(await admin.report(50), 'an empty store');
      expect(html.match(/<p>None\.<\/p>/g)).toHaveLength(5);
      expect(html).not.toMatch(/\{\{|undefined|NaN|null|Infinity/);
    });
  });

  it('deletes old entries of the log', async () => {
    const id = await create();
    await admin.update({ id, actor, label: 'new' });
    const text = "UPDATE key_log SET at = now() - interval '10 days' WHERE key_id = $1 AND action = 'create'";
    await database.query({ name: '', text }, [id]);
    await deleteOldRows(database, 'key_log', 11);
    expect(await admin.log({ id, limit: 5 })).toHaveLength(2);
    await deleteOldRows(database, 'key_log', 9);
    expect((await admin.log({ id, limit: 5 })).map(({ action }) => action)).toEqual(['update']);
  });
});
