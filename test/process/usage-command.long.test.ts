import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { linesOf, makePlace, until, type Place, type Program } from '../support/process.js';

interface Caller {
  readonly client: string;
  readonly requests: number;
}

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

async function listCallers(place: Place, env: Record<string, string>): Promise<Caller[]> {
  const ended = await place.keys(['usage', '--deprecated', '--json'], env);
  expect(ended).toMatchObject({ code: 0, stderr: expect.stringMatching(/^keys: the .*\n$/) });
  expect(linesOf(ended.stdout)).toHaveLength(1);
  return JSON.parse(ended.stdout) as Caller[];
}

function sum(callers: readonly Caller[]): number {
  return callers.reduce((total, { requests }) => total + requests, 0);
}

describe('the usage of keys', () => {
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
    expect((await listCallers(place, env)).map(({ client, requests }) => [client, requests])).toEqual([
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
    expect(callers.filter(({ client }) => client === 'before').map(({ requests }) => requests)).toEqual([10, 10]);
  });

  it('through a gateway are counted by its store', async () => {
    const { code, stdout, stderr } = await place.keys(['usage'], { UPSTREAM_URL: 'http://127.0.0.1:9/v1' });
    expect(code).toBe(1);
    expect(stdout).toBe('');
    expect(linesOf(stderr)).toEqual([expect.stringContaining('UPSTREAM_URL')]);
  });
});
