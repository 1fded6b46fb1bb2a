import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { linesOf, makePlace, type Ended, type Place } from '../support/process.js';

const SECRET = /^pets_[0-9A-Za-z]{38}$/;
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
      expect(ended).toMatchObject({ code: 0, stderr: '' });
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
      expect(JSON.parse(json.stdout)).toContainEqual({ ...listed, revokedAt: null });
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
      expect(listed.at(-1)).toMatchObject({ id, plan: 'free', revokedAt: expect.stringMatching(ISO) });
      expect(listed.slice(0, -1).filter(({ revokedAt }) => revokedAt !== null)).toEqual([]);
    });

    it('reports in one line that the key to revoke does not exist', async () => {
      const { code, stdout, stderr } = await place.keys(['revoke', 'key_nobody'], env);
      expect(code).not.toBe(0);
      expect(stdout).toBe('');
      expect(linesOf(stderr)).toEqual([expect.stringContaining('key_nobody')]);
    });
  },
);
