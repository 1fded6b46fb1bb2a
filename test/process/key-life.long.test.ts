import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePlace, until, type Place, type Program } from '../support/process.js';

/** A revocation takes effect within this time. */
const EFFECTIVE_MS = 5_000;

it('a rotated key works with both secrets on every server under load, and with none after its revocation', async () => {
  const place = await makePlace();
  try {
    const env = { DATABASE_URL: await place.database() };
    const server = { PORT: '0', KEY_SELF_ROTATION: 'true', ...env };
    const programs = [await place.start(server), await place.start(server)];
    const create = ['create', '--plan', 'enterprise', '--per-minute', '900000', '--per-day', '900000', '--json'];
    const keys: { readonly id: string; readonly secrets: string[] }[] = [];
    for (let count = 0; count < 5; count++) {
      const { id, key } = JSON.parse((await place.keys(create, env)).stdout) as { id: string; key: string };
      keys.push({ id, secrets: [key] });
    }
    let isOver = false;
    const statuses = new Map<number, number>();
    const statusOf = async (program: Program, key: string): Promise<number> => {
      const response = await program.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } });
      await response.text();
      return response.status;
    };
    const load = programs.flatMap((program) =>
      keys.map(async ({ secrets }) => {
        while (!isOver) {
          // A new secret is used as soon as it is known, on the server that did not make it too.
          const all = await Promise.all(secrets.map((secret) => statusOf(program, secret)));
          for (const status of all) statuses.set(status, (statuses.get(status) ?? 0) + 1);
        }
      }),
    );
    for (const [index, { secrets }] of keys.entries()) {
      await sleep(300);
      const headers = { Authorization: `Bearer ${secrets[0] as string}` };
      const response = await (programs[index % 2] as Program).fetch('/v1/key/rotate', { method: 'POST', headers });
      expect(response.status).toBe(200);
      secrets.push(((await response.json()) as { key: string }).key);
    }
    // Longer than a lookup is remembered.
    await sleep(EFFECTIVE_MS + 1_000);
    isOver = true;
    await Promise.all(load);
    expect([...statuses.keys()]).toEqual([200]);
    expect(statuses.get(200)).toBeGreaterThan(500);

    const [{ id, secrets }] = keys as [{ id: string; secrets: string[] }];
    expect((await place.keys(['revoke', id], env)).code).toBe(0);
    const revokedAt = Date.now();
    await until('five seconds are over', () => Date.now() >= revokedAt + EFFECTIVE_MS);
    for (const program of programs) for (const secret of secrets) expect(await statusOf(program, secret)).toBe(401);
  } finally {
    await place.close();
  }
});

describe.each(['embedded', 'server'])('a key of a running %s store stops working', (mode) => {
  let place: Place;
  let program: Program;
  let env: Record<string, string> = {};

  beforeAll(async () => {
    place = await makePlace();
    if (mode === 'server') env = { DATABASE_URL: await place.database() };
    else await place.prepareStore();
    program = await place.start({ PORT: '0', ...env });
  });
  afterAll(() => place.close());

  async function create(...args: string[]): Promise<{ id: string; key: string; expiresAt: string }> {
    const { stdout } = await place.keys(['create', '--plan', 'business', '--json', ...args], env);
    return JSON.parse(stdout) as { id: string; key: string; expiresAt: string };
  }

  async function listStatus(key: string): Promise<number> {
    const response = await program.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } });
    await response.text();
    return response.status;
  }

  it.concurrent('within 5 seconds of its revocation, whether it is in use or not', async () => {
    const [inUse, idle, other] = [await create(), await create(), await create()];
    for (const { key } of [inUse, idle, other]) expect(await listStatus(key)).toBe(200);
    for (const { id } of [inUse, idle]) expect((await place.keys(['revoke', id], env)).code).toBe(0);
    const revokedAt = Date.now();

    await until('the key in use is refused', async () => (await listStatus(inUse.key)) === 401, EFFECTIVE_MS);
    await until('five seconds are over', () => Date.now() >= revokedAt + EFFECTIVE_MS);
    expect(await listStatus(idle.key)).toBe(401);
    expect(await listStatus(other.key)).toBe(200);
    const answer = await program.graphql('{ pets { id } }', idle.key);
    expect(answer).not.toHaveProperty('data');
    expect(answer.errors[0].extensions.code).toBe('UNAUTHENTICATED');
  });

  it.concurrent('at the moment it expires, even if it is cached', async () => {
    const { key, expiresAt } = await create('--expires', new Date(Date.now() + 15_000).toISOString());
    const end = Date.parse(expiresAt);
    let lastServed = 0;
    await until('the key is refused', async () => {
      const askedAt = Date.now();
      const status = await listStatus(key);
      if (status === 200) lastServed = askedAt;
      return status === 401;
    });
    expect(Date.now()).toBeGreaterThanOrEqual(end);
    expect(lastServed).toBeGreaterThan(0);
    expect(lastServed).toBeLessThan(end);
  });

  it.concurrent('when the overlap of its rotation ends, while the new secret works at once', async () => {
    const { id, key: old } = await create();
    const { key } = JSON.parse((await place.keys(['rotate', id, '--overlap', '10s', '--json'], env)).stdout) as {
      key: string;
    };
    expect([await listStatus(old), await listStatus(key)]).toEqual([200, 200]);
    await until('the old secret is refused', async () => (await listStatus(old)) === 401, 10_000 + EFFECTIVE_MS);
    expect(await listStatus(key)).toBe(200);
  });
});

it('unban lifts the ban of a key on every server, without Redis too', async () => {
  const place = await makePlace();
  try {
    const env = { DATABASE_URL: await place.database() };
    const server = { PORT: '0', BAN_AFTER: '1', ...env };
    const programs = [await place.start(server), await place.start(server)];
    const limits = ['--per-minute', '1', '--per-day', '9'];
    const { stdout } = await place.keys(['create', '--plan', 'enterprise', ...limits, '--json'], env);
    const { id, key } = JSON.parse(stdout) as { id: string; key: string };
    const errorOf = async (program: Program): Promise<string | undefined> =>
      (await program.graphql('{ pets { id } }', key)).errors?.[0].extensions.code as string | undefined;
    for (const program of programs) {
      expect([await errorOf(program), await errorOf(program), await errorOf(program)]).toEqual([
        undefined,
        'RATE_LIMITED',
        'KEY_BANNED',
      ]);
    }
    expect((await place.keys(['unban', id], env)).code).toBe(0);
    const free = async (program: Program): Promise<unknown> => program.graphql('{ rateLimit { plan } }', key);
    for (const program of programs) {
      await until(
        'the ban is lifted',
        async () => JSON.stringify(await free(program)) === '{"data":{"rateLimit":{"plan":"ENTERPRISE"}}}',
        EFFECTIVE_MS,
      );
    }
  } finally {
    await place.close();
  }
});
