import { userInfo } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { linesOf, makePlace, type Ended, type Place } from '../support/process.js';

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
        revokedAt: null,
        left: situation.startsWith('DATABASE_URL') ? null : { minute: 300, day: 10_000 },
        bannedUntil: null,
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

    it('prints the secret once, with the id that revokes it', async () => {
      const { stdout } = await keys('create', '--plan', 'free');
      expect(stdout.split('\n').filter((line) => SECRET.test(line))).toHaveLength(1);
      const id = /key_\w+/.exec(stdout)?.[0] as string;

      await keys('revoke', id);
      const listed = JSON.parse((await keys('list', '--json')).stdout) as { id: string; revokedAt: string | null }[];
      expect(listed[0]).toMatchObject({ id, plan: 'free', revokedAt: expect.stringMatching(ISO) });
      expect(listed.slice(1).filter(({ revokedAt }) => revokedAt !== null)).toEqual([]);
    });

    it('changes a key, and logs who did what', async () => {
      const { id } = JSON.parse((await keys('create', '--plan', 'free', '--label', 'old', '--json')).stdout) as {
        id: string;
      };
      const numbers = ['--per-minute', '5', '--per-day', '50'];
      await keys('update', id, '--plan', 'enterprise', ...numbers, '--label', 'new', '--expires', '2099-01-01');
      const updated = JSON.parse((await keys('update', id, '--per-day', '60', '--expires', 'never', '--json')).stdout);
      const state = { id, plan: 'enterprise', label: 'new', limits: { perMinute: 5, perDay: 60 }, expiresAt: null };
      expect(updated).toMatchObject(state);
      const rotated = JSON.parse((await keys('rotate', id, '--json')).stdout) as Record<string, string>;
      expect(rotated).toMatchObject({ ...state, key: expect.stringMatching(SECRET) });
      const overlap = Date.parse(rotated.previousEndsAt as string) - Date.now();
      expect(Math.abs(overlap - 86_400_000)).toBeLessThan(60_000);
      await keys('unban', id);
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

    it('lists keys by plan, state and page, in tables that fit the terminal', async () => {
      const create = async (): Promise<string> =>
        JSON.parse((await keys('create', '--plan', 'business', '--label', '猫'.repeat(100), '--json')).stdout)
          .id as string;
      const ids = [await create(), await create(), await create()].reverse();
      const list = async (...args: string[]): Promise<string[]> =>
        (JSON.parse((await keys('list', '--json', ...args)).stdout) as { id: string }[]).map(({ id }) => id);
      expect(await list('--plan', 'business')).toEqual(ids);
      const [newest, next, last] = ids as [string, string, string];
      expect(await list('--plan', 'business', '--limit', '1', '--after', newest)).toEqual([next]);
      await keys('revoke', next);
      expect(await list('--plan', 'business', '--active')).toEqual([newest, last]);
      expect(await list('--limit', '2')).toEqual([newest, next]);
      const table = await place.keys(['list', '--plan', 'business', '--limit', '2'], { ...env, COLUMNS: '80' });
      const [heading, , row, more] = linesOf(table.stdout);
      expect(heading).toMatch(/^id +plan +left min\/day +ends +label$/);
      expect(row).toMatch(/^key_\w+ +business +\S+ +revoked +猫+…$/);
      expect((row?.length ?? 0) + (row?.match(/猫/g)?.length ?? 0)).toBeLessThanOrEqual(80);
      expect(more).toContain(`--after ${next}`);
    });

    it.each([
      ['an unknown id', ['show', 'key_nobody'], 'no key with the id "key_nobody"'],
      ['a revocation of nothing', ['revoke', 'key_nobody'], 'key_nobody'],
      ['an enterprise key without its numbers', [...ENTERPRISE], '--per-minute'],
      ['an enterprise key with one number', [...ENTERPRISE, '--per-day', '10'], '--per-minute'],
      ['less a day than a minute', [...ENTERPRISE, '--per-minute', '9', '--per-day', '8'], 'at least --per-minute'],
      [
        'numbers for a published plan',
        ['create', '--plan', 'pro', '--per-minute', '5', '--per-day', '9'],
        'enterprise',
      ],
      ['an expiry in the past', ['create', '--plan', 'free', '--expires', '2020-01-31'], 'in the future'],
      ['a label of 101 characters', ['create', '--plan', 'free', '--label', '猫'.repeat(101)], '100 characters'],
      ['a label with control characters', ['create', '--plan', 'free', '--label', '\u001b[2J'], 'control characters'],
      ['an update of nothing', ['update', 'key_nobody'], '--plan'],
    ])('refuses %s in one line', async (_, args, said) => {
      const count = (): Promise<Ended> => keys('list', '--json');
      const before = (await count()).stdout;
      const { code, stdout, stderr } = await place.keys(args, env);
      expect([code, stdout]).toEqual([1, '']);
      expect(linesOf(stderr)).toEqual([expect.stringContaining(said)]);
      expect((await count()).stdout).toBe(before);
    });
  },
);
