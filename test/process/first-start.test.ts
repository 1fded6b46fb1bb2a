import { execFile } from 'node:child_process';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { linesOf, makePlace, type Place, type Program } from '../support/process.js';

const PETS = '{ pets(limit: 100) { id name categoryId status } }';

describe('the first start of an empty embedded store', () => {
  let place: Place;
  let program: Program;
  let keys: Record<string, string>;

  beforeAll(async () => {
    place = await makePlace();
    program = await place.start({ PORT: '0' });
    keys = { ...(await place.developmentKeys()) };
  });
  afterAll(() => place.close());

  it('prints one line with its address', async () => {
    const lines = linesOf(program.stdout).filter((line) => line.includes('listening on'));
    expect(lines).toEqual([expect.stringMatching(/listening on http:\/\/127\.0\.0\.1:[1-9]\d*$/)]);
    expect((await program.fetch('/livez')).status).toBe(200);
  });

  it('adds sample animals of every status', async () => {
    const { data } = await program.graphql(PETS, keys.free as string);
    const statuses = (data.pets as { status: string }[]).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set(['AVAILABLE', 'PENDING', 'SOLD', null]));
    expect(statuses.length).toBeLessThan(100);
  });

  it('saves a key for each published plan in dev-keys.json, which only its user can read', async () => {
    const { mode } = await stat(join(place.directory, '.data/dev-keys.json'));
    expect((mode & 0o777).toString(8)).toBe('600');
    expect(Object.keys(keys).sort()).toEqual(['business', 'free', 'pro']);
    for (const [plan, key] of Object.entries(keys)) {
      const { data } = await program.graphql('{ rateLimit { plan } }', key);
      expect(data.rateLimit.plan).toBe(plan.toUpperCase());
    }
  });

  it('prints the keys', () => {
    for (const key of Object.values(keys)) expect(program.stdout).toContain(key);
  });

  it('prints a curl line that works in a shell', async () => {
    const line = linesOf(program.stdout).find((text) => text.startsWith('curl ')) as string;
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', line], {
      env: { PATH: `${process.env.PATH ?? ''}:${await makeCurl(join(place.directory, 'bin'))}` },
    });
    const answer = JSON.parse(stdout);
    expect(answer.errors).toBeUndefined();
    expect(answer.data.pets).toHaveLength(3);
  });

  it('happens once: the next start creates no keys and keeps all animals', async () => {
    const { data } = await program.graphql(
      'mutation { addPet(input: { name: "Zora", categoryId: 7 }) { id } }',
      keys.pro as string,
    );
    const before = await program.graphql(PETS, keys.pro as string);
    const file = await readFile(join(place.directory, '.data/dev-keys.json'), 'utf8');
    expect((await program.stop()).code).toBe(0);

    const second = await place.start({ PORT: '0', LOG_LEVEL: 'silent' });
    expect(linesOf(second.stdout)).toEqual([`The animal store is listening on ${second.url}`]);
    const after = await second.graphql(PETS, keys.pro as string);
    expect(after).toEqual(before);
    expect(after.data.pets).toContainEqual({ id: data.addPet.id, name: 'Zora', categoryId: '7', status: null });
    expect(await readFile(join(place.directory, '.data/dev-keys.json'), 'utf8')).toBe(file);
    const list = await place.keys(['list', '--json']);
    expect(JSON.parse(list.stdout)).toHaveLength(3);
  });
});

it('with LOG_LEVEL=silent, a server prints its address and logs nothing', async () => {
  const place = await makePlace();
  try {
    await place.prepareStore();
    const program = await place.start({ PORT: '0', LOG_LEVEL: 'silent' });
    const { free } = await place.developmentKeys();
    await program.graphql(PETS, free);
    const { stdout, stderr } = await program.stop();
    expect(linesOf(stdout).filter((line) => line.includes('listening on'))).toHaveLength(1);
    expect(linesOf(stdout).filter((line) => line.startsWith('{'))).toEqual([]);
    expect(stderr).toBe('');
  } finally {
    await place.close();
  }
});

/** Creates a folder with a stand-in `curl` that supports the options of the printed line. */
async function makeCurl(directory: string): Promise<string> {
  await mkdir(directory, { recursive: true });
  const source = `#!${process.execPath}
const [url, ...options] = process.argv.slice(2);
const headers = options.flatMap((option, i) => (option === '-H' ? [options[i + 1].split(': ')] : []));
fetch(url, { method: 'POST', headers, body: options[options.indexOf('-d') + 1] })
  .then((response) => response.text())
  .then((text) => process.stdout.write(text));
`;
  await writeFile(join(directory, 'curl'), source, { mode: 0o755 });
  return directory;
}
