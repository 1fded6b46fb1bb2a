import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { linesOf, makePlace, until, type Place, type Program } from '../support/process.js';

interface Caller {
  readonly keyId: string;
  readonly client: string | null;
  readonly coordinate: string;
  readonly calls: number;
  readonly lastAt: string;
}

const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

interface Key {
  readonly id: string;
  readonly key: string;
}

async function createKey(place: Place, env: Record<string, string>, ...args: string[]): Promise<Key> {
  const { stdout } = await place.keys(['create', '--plan', 'business', '--json', ...args], env);
  return JSON.parse(stdout) as Key;
}

/** Makes the deprecated calls over REST and GraphQL, at different times. */
async function call(program: Program, { key }: Key, client: string, times = 1): Promise<void> {
  const headers = { Authorization: `Bearer ${key}`, 'apollographql-client-name': client };
  for (let i = 0; i < times; i++) {
    await (await program.fetch('/v1/pets/1', { headers })).text();
    const body = JSON.stringify({ query: '{ pet(id: 1) { id } }' });
    const init = { method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body };
    await sleep(5);
    await (await program.fetch('/graphql', init)).text();
    await sleep(5);
  }
}

async function listCallers(place: Place, env: Record<string, string>, ...args: string[]): Promise<Caller[]> {
  const ended = await place.keys(['deprecated', '--json', ...args], env);
  expect(ended).toMatchObject({ code: 0, stderr: expect.stringMatching(/^keys: the .*\n$/) });
  expect(linesOf(ended.stdout)).toHaveLength(1);
  return JSON.parse(ended.stdout) as Caller[];
}

function sum(callers: readonly Caller[]): number {
  return callers.reduce((total, { calls }) => total + calls, 0);
}

describe.each(['the server of the embedded store running', 'no server running', 'DATABASE_URL set'])(
  'keys deprecated with %s',
  (situation) => {
    let place: Place;
    let program: Program;
    let shop: Key;
    let other: Key;
    let env: Record<string, string> = {};

    beforeAll(async () => {
      place = await makePlace();
      if (situation === 'DATABASE_URL set') env = { DATABASE_URL: await place.database() };
      else await place.prepareStore();
      const server = { PORT: '0', SAMPLE_DATA: 'false', ...env };
      program = await place.start(server);
      shop = await createKey(place, env, '--label', 'shop "Ω"');
      other = await createKey(place, env);
      const nobody = await place.keys(['deprecated'], env);
      expect(nobody).toMatchObject({ code: 0, stdout: 'Nobody has called anything deprecated.\n' });
      expect(await listCallers(place, env)).toEqual([]);

      await call(program, shop, 'web app', 3);
      await call(program, other, '');
      if (situation === 'no server running') await program.stop();
      await until('all calls are written', async () => sum(await listCallers(place, env)) === 8);
    });
    afterAll(() => place.close());

    it('lists callers as JSON, the latest first', async () => {
      const callers = await listCallers(place, env);
      const [first] = callers;
      expect(Object.keys(first ?? {})).toEqual(
        'keyId label plan expiresAt revokedAt client through coordinate calls lastAt'.split(' '),
      );
      const rest = { through: 'rest', coordinate: 'GET /v1/pets/{petId}' };
      const graphql = { through: 'graphql', coordinate: 'Query.pet' };
      const ofShop = { keyId: shop.id, label: 'shop "Ω"', client: 'web app', calls: 3 };
      const ofOther = { keyId: other.id, label: null, client: null, calls: 1 };
      expect(callers).toEqual(
        [
          { ...ofOther, ...graphql },
          { ...ofOther, ...rest },
          { ...ofShop, ...graphql },
          { ...ofShop, ...rest },
        ].map((expected) => ({
          ...expected,
          plan: 'business',
          expiresAt: null,
          revokedAt: null,
          lastAt: expect.stringMatching(ISO),
        })),
      );
      const [, , graphqlOfShop] = callers as [Caller, Caller, Caller];
      expect(Math.abs(Date.parse(graphqlOfShop.lastAt) - Date.now())).toBeLessThan(60_000);
    });

    it('lists them as a table', async () => {
      const { code, stdout } = await place.keys(['deprecated'], env);
      expect(code).toBe(0);
      const rows = linesOf(stdout).map((line) => line.split(/ {2,}/));
      expect(rows[0]).toEqual(['key', 'label', 'plan', 'key ended', 'client', 'through', 'calls', 'last']);
      const time = expect.stringMatching(/^\d{4}-\d{2}-\d{2} \d{2}:\d{2}$/);
      expect(rows[1]).toEqual([other.id, 'business', '(no name)', 'GraphQL Query.pet', '1', time]);
      expect(rows[4]).toEqual([shop.id, 'shop "Ω"', 'business', 'web app', 'REST GET /v1/pets/{petId}', '3', time]);
      expect(stdout).not.toContain(shop.key);
    });

    it('leaves out callers that have not called since a date', async () => {
      expect(await listCallers(place, env, '--since', '2099-01-01')).toEqual([]);
      expect(await listCallers(place, env, '--since', '2020-01-01T00:00:00Z')).toHaveLength(4);
      const { stdout } = await place.keys(['deprecated', '--since', '2099-01-01'], env);
      expect(stdout).toBe('Nobody has called anything deprecated since 2099-01-01T00:00:00.000Z.\n');
    });

    it('marks keys that are no longer valid', async () => {
      await place.keys(['revoke', other.id], env);
      const { stdout } = await place.keys(['deprecated'], env);
      const ended = linesOf(stdout).filter((line) => line.includes(' yes '));
      expect(ended).toHaveLength(2);
      for (const line of ended) expect(line).toContain(other.id);
      expect((await listCallers(place, env))[0]).toMatchObject({ revokedAt: expect.stringMatching(ISO) });
    });
  },
);

describe('deprecated calls', () => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });
  afterEach(() => place.close());

  it('of two servers on one database add up, and no call is lost when the servers stop', async () => {
    const env = { DATABASE_URL: await place.database() };
    const programs = [await place.start({ PORT: '0', ...env }), await place.start({ PORT: '0', ...env })];
    const key = await createKey(place, env);
    await Promise.all(programs.map((program) => call(program, key, 'both', 40)));
    expect((await Promise.all(programs.map((program) => program.stop()))).map(({ code }) => code)).toEqual([0, 0]);
    expect((await listCallers(place, env)).map(({ client, calls }) => [client, calls])).toEqual([
      ['both', 80],
      ['both', 80],
    ]);
  });

  it('are written within five seconds and then survive a kill', async () => {
    const env = { DATABASE_URL: await place.database() };
    const program = await place.start({ PORT: '0', ...env });
    const key = await createKey(place, env);
    await call(program, key, 'before', 10);
    await until('all calls are written', async () => sum(await listCallers(place, env)) === 20);
    await call(program, key, 'after', 10);
    await program.stop('SIGKILL');
    const callers = await listCallers(place, env);
    expect(callers.filter(({ client }) => client === 'before').map(({ calls }) => calls)).toEqual([10, 10]);
  });

  it('through a gateway are counted by its store', async () => {
    const { code, stdout, stderr } = await place.keys(['deprecated'], { UPSTREAM_URL: 'http://127.0.0.1:9/v1' });
    expect(code).toBe(1);
    expect(stdout).toBe('');
    expect(linesOf(stderr)).toEqual([expect.stringContaining('UPSTREAM_URL')]);
  });
});
