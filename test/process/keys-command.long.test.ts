import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { linesOf, makePlace, until, type Ended, type Place } from '../support/process.js';
import { runSql } from '../support/sql.js';

const KEYS = fileURLToPath(new URL('../../dist/cli/keys.js', import.meta.url));
const MIGRATE = fileURLToPath(new URL('../../dist/cli/migrate.js', import.meta.url));
const SECRET = /^pets_[0-9A-Za-z]{38}$/;
const ENTERPRISE = ['create', '--plan', 'enterprise'];
const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

describe.each(['no server running', 'the server of the embedded store running', 'DATABASE_URL set'])(
  'the keys command with %s',
  (situation) => {
    let place: Place;
    let env: Record<string, string> = {};

    beforeAll(async () => {
      place = await makePlace();
      if (situation.startsWith('DATABASE_URL')) env = { DATABASE_URL: await place.database() };
      else await place.prepareStore();
      if (situation.startsWith('the server')) await place.start({ PORT: '0', SAMPLE_DATA: 'false' });
    });
    afterAll(() => place.close());

    async function keys(...args: string[]): Promise<Ended> {
      const ended = await place.keys(args, env);
      expect(ended).toMatchObject({ code: 0, stderr: expect.stringMatching(/^keys: the (embedded )?store .*\n$/) });
      return ended;
    }

    it('creates a key as one JSON object, and lists it without its secret', async () => {
      const { stdout } = await keys('create', '--plan', 'pro', '--label', 'shop "Ω"', '--json');
      expect(linesOf(stdout)).toHaveLength(1);
      const created = JSON.parse(stdout) as { key: string; id: string; createdAt: string };
      expect(created).toEqual({
        id: expect.any(String),
        key: expect.stringMatching(SECRET),
        plan: 'pro',
        label: 'shop "Ω"',
        limits: { perMinute: 300, perDay: 10_000 },
        createdAt: expect.stringMatching(ISO),
        expiresAt: null,
      });
      expect(Object.keys(created)).toEqual(['id', 'key', 'plan', 'label', 'limits', 'createdAt', 'expiresAt']);
      expect(Math.abs(Date.parse(created.createdAt) - Date.now())).toBeLessThan(60_000);

      const { key, ...listed } = created;
      const json = await keys('list', '--json');
      expect(JSON.parse(json.stdout)).toContainEqual({
        ...listed,
        readOnly: false,
        revokedAt: null,
        left: null,
        bannedUntil: null,
        lastUsedAt: null,
      });
      const table = await keys('list');
      expect(table.stdout).toContain(listed.id);
      expect(json.stdout + table.stdout).not.toContain(key);
    });

    it('creates an enterprise key with its two numbers and its expiry', async () => {
      const numbers = ['--per-minute', '7', '--per-day', '2147483647'];
      const { stdout } = await keys('create', '--plan', 'enterprise', ...numbers, '--expires', '2099-02-28', '--json');
      expect(JSON.parse(stdout)).toMatchObject({
        plan: 'enterprise',
        label: null,
        limits: { perMinute: 7, perDay: 2_147_483_647 },
        expiresAt: '2099-02-28T00:00:00.000Z',
      });
    });

    it('creates a read-only key, and shows that it is one', async () => {
      const { stdout } = await keys('create', '--plan', 'pro', '--read-only');
      expect(stdout).toMatch(/^Created key_\w+ \(pro, read-only: 300 a minute, 10000 a day, expires never\)\.$/m);
      const id = /key_\w+/.exec(stdout)?.[0] as string;
      expect(JSON.parse((await keys('show', id, '--json')).stdout)).toMatchObject({ id, readOnly: true });
      expect((await keys('show', id)).stdout).toMatch(/^plan +pro, read-only: 300 a minute, 10000 a day$/m);
      expect((await keys('list')).stdout).toMatch(new RegExp(`^${id}  pro, read-only  never `, 'm'));
      expect((await keys('log', id)).stdout).toContain('readOnly: none → true');
      const json = JSON.parse((await keys('create', '--plan', 'pro', '--read-only', '--json')).stdout) as object;
      expect(Object.keys(json)).toEqual(['id', 'key', 'plan', 'label', 'limits', 'createdAt', 'expiresAt']);
    });

    it('prints the secret once, with the id that revokes it', async () => {
      const { stdout } = await keys('create', '--plan', 'free');
      expect(stdout.split('\n').filter((line) => SECRET.test(line))).toHaveLength(1);
      const id = /key_\w+/.exec(stdout)?.[0] as string;

      await keys('revoke', id);
      const listed = JSON.parse((await keys('list', '--json')).stdout) as { id: string; revokedAt: string | null }[];
      expect(listed[0]).toMatchObject({ id, plan: 'free', revokedAt: expect.stringMatching(ISO) });
      expect(listed.slice(1).filter(({ revokedAt }) => revokedAt !== null)).toEqual([]);
    });

    if (situation !== 'no server running')
      it('changes a key, and logs who did what', async () => {
        const { id } = JSON.parse((await keys('create', '--plan', 'free', '--label', 'old', '--json')).stdout) as {
          id: string;
        };
        const numbers = ['--per-minute', '5', '--per-day', '50'];
        await keys('update', id, '--plan', 'enterprise', ...numbers, '--label', 'new', '--expires', '2099-01-01');
        const updated = JSON.parse(
          (await keys('update', id, '--per-day', '60', '--expires', 'never', '--json')).stdout,
        );
        const state = { id, plan: 'enterprise', label: 'new', limits: { perMinute: 5, perDay: 60 }, expiresAt: null };
        expect(updated).toMatchObject(state);
        const rotated = JSON.parse((await keys('rotate', id, '--json')).stdout) as Record<string, string>;
        expect(rotated).toMatchObject({ ...state, key: expect.stringMatching(SECRET) });
        const overlap = Date.parse(rotated.previousEndsAt as string) - Date.now();
        expect(Math.abs(overlap - 86_400_000)).toBeLessThan(60_000);
        expect((await keys('unban', id)).stdout).toBe(`If ${id} was banned, the ban ends within 5 seconds.\n`);
        expect(JSON.parse((await keys('show', id, '--json')).stdout)).toMatchObject(state);
        expect((await keys('show', id)).stdout).toMatch(/^plan +enterprise: 5 a minute, 60 a day$/m);

        const log = JSON.parse((await keys('log', id, '--json')).stdout) as Record<string, unknown>[];
        expect(log.map(({ action }) => action)).toEqual(['unban', 'rotate', 'update', 'update', 'create']);
        expect(log[2]).toEqual({
          at: expect.stringMatching(ISO),
          actor: userInfo().username,
          action: 'update',
          keyId: id,
          changes: {
            limits: [
              { perMinute: 5, perDay: 50 },
              { perMinute: 5, perDay: 60 },
            ],
            expiresAt: ['2099-01-01T00:00:00.000Z', null],
          },
        });
        await place.keys(['revoke', id], { ...env, KEYS_ACTOR: 'Ms Ω' });
        const { stdout } = await keys('log', '--limit', '1');
        expect(linesOf(stdout)[1]).toMatch(new RegExp(`^\\d{4}-\\d{2}-\\d{2} \\d{2}:\\d{2}  Ms Ω  revoke  ${id}$`));
        expect(stdout + JSON.stringify(log)).not.toContain('pets_');
      });

    if (situation === 'DATABASE_URL set')
      it('deletes a revoked key and no other, and keeps its log', async () => {
        const created = JSON.parse((await keys('create', '--plan', 'pro', '--label', 'gone', '--json')).stdout);
        const { id } = created as { id: string };
        const early = await place.keys(['delete', id], env);
        expect([early.code, early.stdout, linesOf(early.stderr)]).toEqual([
          1,
          '',
          [expect.stringContaining(`${id} is not revoked: revoke it first`)],
        ]);
        await keys('revoke', id);
        expect((await keys('delete', id)).stdout).toBe(`Deleted ${id}. Its usage and its log stay.\n`);
        expect((await place.keys(['show', id], env)).stderr).toContain('there is no key');
        const log = JSON.parse((await keys('log', id, '--json')).stdout) as { action: string; changes: object }[];
        expect(log.map(({ action }) => action)).toEqual(['delete', 'revoke', 'create']);
        expect(log[0]?.changes).toMatchObject({ plan: ['pro', null], label: ['gone', null] });
        expect((await keys('log', id)).stdout).toContain('label: gone → none');
        expect((await keys('usage', id, '--since', '2030-01-01')).stdout).toContain('2030-01-01');
      });

    if (situation === 'DATABASE_URL set')
      it('changes an expired key, but does not rotate it', async () => {
        const created = await keys('create', '--plan', 'free', '--json');
        const { id } = JSON.parse(created.stdout) as { id: string };
        await runSql(
          String(env.DATABASE_URL),
          `UPDATE api_keys SET created_at = now() - interval '2 years', expires_at = now() - interval '1 day' WHERE id = '${id}'`,
        );
        expect(JSON.parse((await keys('update', id, '--label', 'old', '--json')).stdout)).toMatchObject({
          label: 'old',
        });
        expect((await keys('show', id)).stdout).toMatch(/^last used +not in a year$/m);
        const rotated = await place.keys(['rotate', id], env);
        expect([rotated.code, rotated.stderr]).toEqual([1, expect.stringContaining('has expired')]);
      });

    if (situation === 'DATABASE_URL set')
      it('lists keys by plan, state and page, in columns', async () => {
        const create = async (): Promise<string> =>
          JSON.parse((await keys('create', '--plan', 'business', '--label', '猫'.repeat(100), '--json')).stdout)
            .id as string;
        const ids = [await create(), await create(), await create()].reverse();
        const list = async (...args: string[]): Promise<string[]> =>
          (JSON.parse((await keys('list', '--json', ...args)).stdout) as { id: string }[]).map(({ id }) => id);
        expect(await list('--plan', 'business', '--limit', '3')).toEqual(ids);
        const [newest, next, last] = ids as [string, string, string];
        await keys('revoke', next);
        expect(await list('--plan', 'business', '--active', '--limit', '2')).toEqual([newest, last]);
        expect(await list('--limit', '2')).toEqual([newest, next]);
        const table = await place.keys(['list', '--plan', 'business', '--limit', '2'], { ...env, COLUMNS: '0' });
        const [heading, , row, more] = linesOf(table.stdout);
        expect(heading).toMatch(/^id +plan +last used +ends +label$/);
        expect(row).toMatch(/^key_\w+  business  never +revoked +猫{100}$/);
        expect(more).toContain('--limit 4');
      });

    if (situation !== 'no server running')
      it('refuses wrong input in one line, and changes nothing', async () => {
        const before = (await keys('list', '--json')).stdout;
        for (const [args, said] of [
          [['show', 'key_nobody'], 'no key with the id "key_nobody"'],
          [['revoke', 'key_nobody'], 'key_nobody'],
          [['usage', 'key_nobody'], 'no key with the id'],
          [['log', 'key_nobody'], 'no key with the id'],
          [[...ENTERPRISE], '--per-minute'],
          [[...ENTERPRISE, '--per-day', '10'], '--per-minute'],
          [[...ENTERPRISE, '--per-minute', '9', '--per-day', '8'], 'at least --per-minute'],
          [['create', '--plan', 'pro', '--per-minute', '5', '--per-day', '9'], 'enterprise'],
          [['create', '--plan', 'free', '--expires', '2020-01-31'], 'in the future'],
          [['create', '--plan', 'free', '--label', '猫'.repeat(101)], '100 characters'],
          [['create', '--plan', 'free', '--label', '\u001b[2J'], 'control characters'],
          [['update', 'key_nobody'], '--plan'],
        ] as const) {
          const { code, stdout, stderr } = await place.keys(args, env);
          expect([code, stdout]).toEqual([1, '']);
          expect(linesOf(stderr)).toEqual([expect.stringContaining(said)]);
        }
        expect((await keys('list', '--json')).stdout).toBe(before);
      });
  },
);

it('keys says which secret was lost if it cannot be printed', async () => {
  const place = await makePlace();
  await place.prepareStore();
  const command = `"${process.execPath}" "${KEYS}" create --plan free > /dev/full`;
  const { status, stderr } = spawnSync('sh', ['-c', command], { cwd: place.directory, encoding: 'utf8' });
  expect(status).toBe(1);
  expect(stderr).toMatch(/the new secret of key_\w+ is lost\. Rotate or revoke the key\n$/);
  await place.close();
});

it('migrate fails if it cannot say what it did', async () => {
  const place = await makePlace();
  const command = `"${process.execPath}" "${MIGRATE}" > /dev/full`;
  const { status, stderr } = spawnSync('sh', ['-c', command], { cwd: place.directory, encoding: 'utf8' });
  expect([status, stderr]).toEqual([1, 'migrate: no space left on device\n']);
  await place.close();
});

it('keys usage answers who requested what, who is left, and who used up the daily limit', async () => {
  const place = await makePlace();
  try {
    await place.prepareStore();
    const program = await place.start({ PORT: '0', SAMPLE_DATA: 'false' });
    const limits = ['--per-minute', '2', '--per-day', '2'];
    const created = await place.keys(['create', '--plan', 'enterprise', ...limits, '--label', 'eager', '--json']);
    const { id, key } = JSON.parse(created.stdout) as { id: string; key: string };
    await program.graphql('query Show { pet(id: 1) { id } }', key);
    for (let i = 0; i < 3; i++) {
      const headers = { Authorization: `Bearer ${key}`, 'apollographql-client-name': 'job' };
      await (await program.fetch('/v1/pets', { headers })).text();
    }
    const usage = async (...args: string[]): Promise<unknown[]> =>
      JSON.parse((await place.keys(['usage', '--json', ...args])).stdout) as unknown[];
    await until('the usage is written', async () => (await usage()).length === 2);
    const ofKey = { keyId: id, label: 'eager', plan: 'enterprise' };
    const lastAt = expect.stringMatching(ISO);
    const list = {
      client: 'job',
      operation: 'GET /v1/pets',
      deprecated: '',
      requests: 3,
      cost: 1,
      errors: 2,
      refused: 2,
      lastAt,
    };
    const show = {
      client: '',
      operation: 'Show',
      deprecated: 'Query.pet',
      requests: 1,
      cost: 1,
      errors: 1,
      refused: 0,
      lastAt,
    };
    expect(await usage()).toEqual([
      { ...ofKey, ...list },
      { ...ofKey, ...show },
    ]);
    expect(await usage(id)).toEqual(await usage());
    expect(await usage('--since', '2099-01-01')).toEqual([]);
    const lines = linesOf((await place.keys(['usage', id])).stdout);
    expect(lines[0]).toMatch(/^Requests since \d{4}-\d{2}-\d{2}:$/);
    expect(lines[2]).toMatch(/^key_\w+  eager  enterprise  job +GET \/v1\/pets +3 +1 +2 +2 +\S+ \S+$/);
    expect(await usage('--deprecated')).toEqual([{ ...ofKey, ...show }]);

    const report = await place.keys(['report', '--html', 'report.html']);
    expect(report).toMatchObject({ code: 0, stdout: 'Wrote report.html.\n' });
    const html = await readFile(join(place.directory, 'report.html'), 'utf8');
    expect(html).toContain(`<td>${id}</td><td>eager</td><td>enterprise</td>`);
    expect(html).toContain('All keys of the embedded store in .data');
    const nowhere = await place.keys(['report', '--html', 'no/where.html']);
    expect([nowhere.code, linesOf(nowhere.stderr)]).toEqual([
      1,
      [expect.stringMatching(/^keys: no\/where.html: no such file or directory/)],
    ]);

    const { lastUsedAt, left } = JSON.parse((await place.keys(['show', id, '--json'])).stdout);
    expect(left).toBeNull();
    expect(linesOf((await place.keys(['list'])).stdout).at(0)).not.toContain('left');
    expect((await place.keys(['show', id])).stdout).toMatch(/^left +counted in the memory of each server/m);
    expect(Math.abs(Date.parse(lastUsedAt as string) - Date.now())).toBeLessThan(60_000);
  } finally {
    await place.close();
  }
});

it('keys usage is of today, or of the days since a date', async () => {
  const place = await makePlace();
  try {
    const env = { DATABASE_URL: await place.database() };
    await runSql(
      env.DATABASE_URL,
      `INSERT INTO usage SELECT 'key_1', date_trunc('day', now(), 'UTC') - days * interval '1 day', 24, '', 'Q', '', 1, 10 ^ days, 0, 0, now()
       FROM unnest('{0, 1, 2, 3}'::int[]) AS days`,
    );
    const costOf = async (...args: string[]): Promise<number> => {
      const { stdout } = await place.keys(['usage', '--json', ...args], env);
      return (JSON.parse(stdout) as { cost: number }[])[0]?.cost ?? NaN;
    };
    expect(await costOf()).toBe(1);
    expect(await costOf('key_1')).toBe(1);
    expect(await costOf('--since', new Date(Date.now() - 2 * 86_400_000).toISOString())).toBe(111);
    expect(await costOf('key_1', '--since', '2020-01-01')).toBe(1111);
    expect(await costOf('--since', '2020-01-01')).toBe(1111);
    expect(await costOf('--deprecated', '--since', '2020-01-01')).toBeNaN();
  } finally {
    await place.close();
  }
});

it.each(['infinity', '294276-12-31'])(
  'keys names a key whose expiry or revocation is no date, such as %s, and servers refuse it',
  async (time) => {
    const place = await makePlace();
    try {
      const env = { PORT: '0', DATABASE_URL: await place.database() };
      const secrets: string[] = [];
      for (const column of ['expires_at', 'revoked_at']) {
        const created = await place.keys(['create', '--plan', 'free', '--json'], env);
        const { id, key } = JSON.parse(created.stdout) as { id: string; key: string };
        const rotated = await place.keys(['rotate', id, '--json'], env);
        secrets.push(key, (JSON.parse(rotated.stdout) as { key: string }).key);
        await runSql(env.DATABASE_URL, `UPDATE api_keys SET ${column} = '${time}' WHERE id = '${id}'`);
        const name = column === 'expires_at' ? 'expiresAt' : 'revokedAt';
        for (const args of [['list'], ['list', '--json'], ['show', id], ['show', id, '--json']]) {
          const { code, stdout, stderr } = await place.keys(args, env);
          expect([code, stdout]).toEqual([1, '']);
          const line = `keys: ${id} has no valid date as ${name}: correct it in the database`;
          expect(linesOf(stderr)).toEqual([expect.stringContaining(line)]);
        }
      }
      const program = await place.start(env);
      for (const key of secrets) {
        const headers = { Authorization: `Bearer ${key}` };
        expect((await program.fetch('/v1/pets', { headers })).status).toBe(401);
      }
    } finally {
      await place.close();
    }
  },
);

it.each(['infinity', '0044-03-15 BC'])('keys reports never omit a time that is no date: %s', async (time) => {
  const place = await makePlace();
  try {
    const env = { DATABASE_URL: await place.database() };
    const created = await place.keys(['create', '--plan', 'free', '--json'], env);
    const { id } = JSON.parse(created.stdout) as { id: string };
    await runSql(
      env.DATABASE_URL,
      `UPDATE key_log SET at = '${time}';
       INSERT INTO usage (key_id, starts_at, client, operation, deprecated, requests, cost, errors, refused, last_at)
       VALUES ('${id}', now(), '', '', 'Query.pet', 1, 1, 0, 0, '${time}')`,
    );
    for (const [args, name] of [
      [['log'], 'at'],
      [['log', id], 'at'],
      [['usage'], 'lastAt'],
      [['usage', '--deprecated'], 'lastAt'],
      [['report', '--html', 'report.html'], 'lastAt'],
    ] as const) {
      for (const format of [[], ['--json']]) {
        const { code, stdout, stderr } = await place.keys([...args, ...format], env);
        expect([code, stdout]).toEqual([1, '']);
        const line = `keys: ${id} has no valid date as ${name}: correct it in the database (the store on `;
        expect(linesOf(stderr)).toEqual([expect.stringContaining(line)]);
      }
    }
  } finally {
    await place.close();
  }
});

it('keys refuses a blank KEYS_ACTOR', async () => {
  const place = await makePlace();
  try {
    const env = { DATABASE_URL: await place.database(), KEYS_ACTOR: '  ' };
    const { code, stderr } = await place.keys(['create', '--plan', 'free'], env);
    expect([code, stderr]).toEqual([1, expect.stringContaining('KEYS_ACTOR must not be blank')]);
  } finally {
    await place.close();
  }
});
