import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KeyStore } from '../../src/store/postgres-key-store.js';
import type { Database } from '../../src/store/database.js';
import { createKeyAdmin, type KeyAdmin } from '../../src/store/key-admin.js';
import { migrate } from '../../src/store/migrate.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { openPgliteDatabase } from '../../src/store/embedded-store.js';
import { createPostgresKeyStore } from '../../src/store/postgres-key-store.js';
import { createPostgresUsage } from '../../src/store/postgres-usage.js';
import { createDatabase } from '../support/gateway.js';

describe.each(['PGlite', 'a PostgreSQL server'])('the administration of keys on %s', (kind) => {
  let database: Database;
  let drop: (() => Promise<void>) | undefined;
  let admin: KeyAdmin;
  /** Called once, between reading a key and changing it. */
  let meanwhile: (() => Promise<unknown>) | undefined;

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
      async update(...parameters) {
        const work = meanwhile;
        meanwhile = undefined;
        await work?.();
        return keys.update(...parameters);
      },
    };
    admin = createKeyAdmin(interrupted, createPostgresUsage(database), () => undefined);
  });
  afterAll(async () => {
    await database.close();
    await drop?.();
  });

  const actor = 'ada';
  const create = async (): Promise<string> => (await admin.create({ plan: 'free', label: 'old', actor })).id;

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
    for (const label of ['\u001b[2J', 'a\nb', 'a\u0085b', 'a\u2028b', 'a\u2029b'])
      await expect(admin.create({ plan: 'free', label, actor })).rejects.toThrow('must not have control characters');
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
});
