import { readdir, readFile, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makePlace, type Place, type Program } from '../support/process.js';

describe('the secret of a key', () => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });
  afterEach(() => place.close());

  async function createKey(env: Record<string, string> = {}): Promise<string> {
    const { stdout } = await place.keys(['create', '--plan', 'pro', '--json'], env);
    return JSON.parse(stdout).key as string;
  }

  it('is in no file of the data directory except dev-keys.json, and in no log', async () => {
    await place.prepareStore();
    const env = { PORT: '0', LOG_LEVEL: 'trace' };
    const first = await place.start(env);
    const developmentKeys = Object.values({ ...(await place.developmentKeys()) });
    const key = await createKey();
    for (const secret of [key, ...developmentKeys]) await useEverywhere(first, secret);
    expect((await first.stop()).code).toBe(0);
    expect(holders(first.stdout + first.stderr, [key])).toEqual([]);

    const second = await place.start(env);
    for (const secret of [key, ...developmentKeys]) await useEverywhere(second, secret);
    const { stdout, stderr } = await second.stop();
    expect(stdout).toContain('"requestId"');
    expect(holders(stdout + stderr, [key, ...developmentKeys])).toEqual([]);

    const data = join(place.directory, '.data');
    const files = (await readdir(data, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
    expect(files.length).toBeGreaterThan(100);
    for (const { parentPath, name } of files) {
      const path = join(parentPath, name);
      const secrets = relative(data, path) === 'dev-keys.json' ? [key] : [key, ...developmentKeys];
      expect(holders(await readFile(path, 'latin1'), secrets), path).toEqual([]);
    }
  });

  it('is nowhere in the database, and in no log', async () => {
    const url = await place.database();
    const env = { PORT: '0', LOG_LEVEL: 'trace', DATABASE_URL: url };
    const program = await place.start(env);
    const key = await createKey(env);
    await useEverywhere(program, key);
    const { stdout, stderr } = await program.stop();
    expect(stdout).toContain('"requestId"');
    expect(holders(stdout + stderr, [key])).toEqual([]);

    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query<{ text: string }>('SELECT api_keys::text AS text FROM api_keys');
    await client.end();
    expect(rows).toHaveLength(1);
    expect(holders(rows.map(({ text }) => text).join('\n'), [key])).toEqual([]);
  });

  it('is read over a socket that only its user can open', async () => {
    await place.prepareStore();
    await place.start({ PORT: '0', SAMPLE_DATA: 'false' });
    const socket = await stat(join(place.directory, '.data/.s.PGSQL.5432'));
    expect(socket.isSocket()).toBe(true);
    expect((socket.mode & 0o777).toString(8)).toBe('600');
  });
});

/** Sends valid and invalid requests with a key, over GraphQL and REST. */
async function useEverywhere(program: Program, key: string): Promise<void> {
  expect(await program.graphql('{ pets(limit: 1) { id } }', key)).toHaveProperty('data.pets');
  expect(await program.graphql('{ pet(id: "x") { id } }', key)).toHaveProperty('errors');
  expect(await program.graphql('{ nonsense', key)).toHaveProperty('errors');
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  expect((await program.fetch('/v1/pets', { headers })).status).toBe(200);
  expect((await program.fetch('/v1/pets/999999', { headers })).status).toBe(404);
  expect((await program.fetch('/v1/pets', { headers, method: 'POST', body: '{"name":' })).status).toBe(400);
}

/** The secrets that a text contains: plain, in hex or in base64. */
function holders(text: string, secrets: readonly string[]): string[] {
  return secrets.filter((secret) => {
    const random = secret.slice('pets_'.length);
    const bytes = Buffer.from(secret);
    const forms = [random, bytes.toString('hex'), bytes.toString('base64').slice(0, 40)];
    return forms.some((form) => text.includes(form));
  });
}
