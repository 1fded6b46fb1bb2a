import { spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { linesOf, makePlace, type Place } from '../support/process.js';
import { runSql } from '../support/sql.js';
import { statementWaits, whileLocked } from '../support/table-lock.js';

const STORE = fileURLToPath(new URL('../../dist/cli/store.js', import.meta.url));
const FILE = 'store.jsonl';

describe('the store command', () => {
  let place: Place;
  let url: string;
  let exported: string;

  beforeAll(async () => {
    place = await makePlace();
    await place.prepareStore();
    const program = await place.start({ PORT: '0' });
    const { free } = await place.developmentKeys();
    const headers = { Authorization: `Bearer ${free}`, 'Content-Type': 'application/json', 'Idempotency-Key': 'once' };
    const body = `{"name":"O'Hara \\\\ Žofka 猫","categoryId":9223372036854775807}`;
    expect((await program.fetch('/v1/pets', { method: 'POST', headers, body })).status).toBe(201);
    const beside = await place.store(['export', '-']);
    expect(beside).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/exported pets: 9, api_keys: 3, .* idempotent_adds: 1 from /),
    });
    await program.stop();
    expect(await place.store(['export', FILE])).toMatchObject({ code: 0 });
    exported = await readFile(join(place.directory, FILE), 'utf8');
    const withoutUsage = (text: string): string[] =>
      linesOf(text).filter((line) => line.startsWith('{"id"') || line.startsWith('{"caller_id"'));
    expect(withoutUsage(beside.stdout)).toEqual(withoutUsage(exported));
    url = await place.database();
  });
  afterAll(() => place.close());

  it('moves everything from an embedded store to a server and back, byte for byte', async () => {
    expect(exported).not.toContain('pets_');
    const toServer = await place.store(['import', FILE], { DATABASE_URL: url });
    expect(toServer).toMatchObject({ code: 0, stderr: expect.stringContaining('count and checksum are right') });
    expect((await place.store(['export', '-'], { DATABASE_URL: url })).stdout).toBe(exported);
    expect((await place.store(['import', FILE], { DATA_DIR: 'back' })).code).toBe(0);
    expect((await place.store(['export', '-'], { DATA_DIR: 'back' })).stdout).toBe(exported);
  });

  it('says every five seconds how far a transfer is', async () => {
    const start = (command: string, url: string) => {
      const env = { PATH: process.env.PATH, DATABASE_URL: url };
      const child = spawn(process.execPath, [STORE, command, '-'], { cwd: place.directory, env });
      const [said, closed] = [text(child.stderr), once(child, 'close')];
      const says = async (summary: string): Promise<void> => {
        expect(await closed).toEqual([0, null]);
        const lines = linesOf(await said);
        expect(lines.pop()).toContain(summary);
        expect(lines.length).toBeGreaterThan(0);
        for (const line of lines) expect(line).toMatch(/^store: \d+ of 20000 rows, about \d+ s left$/);
      };
      return { child, says };
    };

    // The transfer is longer than a pipe, so each command waits until somebody reads or writes the rest.
    const source = await place.database();
    await runSql(source, "INSERT INTO pets (name, category_id) SELECT 'Rex', 1 FROM generate_series(1, 20000)");
    const exporting = start('export', source);
    await once(exporting.child.stdout, 'readable');
    await sleep(5_500);
    const all = await text(exporting.child.stdout);
    await exporting.says('exported pets: 20000');

    const importing = start('import', await place.database());
    importing.child.stdout.resume();
    importing.child.stdin.write(all.slice(0, all.length / 2));
    await once(importing.child.stdin, 'drain');
    await sleep(5_500);
    importing.child.stdin.end(all.slice(all.length / 2));
    await importing.says('imported pets: 20000');
  });

  it('keeps what a key may, and imports exports of older versions, in which each key may add', async () => {
    const source = { DATABASE_URL: await place.database() };
    await place.keys(['create', '--plan', 'free', '--read-only'], source);
    const { stdout } = await place.store(['export', '-'], source);
    const body = linesOf(stdout.replace(',"read_only"', '').replace(',"read_only":true', '')).slice(0, -1);
    const sha256 = hash('sha256', `${body.join('\n')}\n`);
    await writeFile(join(place.directory, 'new.jsonl'), stdout);
    await writeFile(join(place.directory, 'old.jsonl'), `${[...body, JSON.stringify({ sha256 })].join('\n')}\n`);
    for (const [file, readOnly] of [
      ['new.jsonl', true],
      ['old.jsonl', false],
    ] as const) {
      const target = { DATABASE_URL: await place.database() };
      expect(await place.store(['import', file], target)).toMatchObject({ code: 0 });
      expect(JSON.parse((await place.keys(['list', '--json'], target)).stdout)).toMatchObject([{ readOnly }]);
    }
  });

  it('counts one row of a table as it counts several', async () => {
    const env = { DATABASE_URL: await place.database() };
    await place.keys(['create', '--plan', 'free'], env);
    expect((await place.store(['export', '-'], env)).stderr).toMatch(/exported pets: 0, api_keys: 1, /);
  });

  it('ignores a byte order mark at the beginning of an export, and no other', async () => {
    await writeFile(join(place.directory, 'marked.jsonl'), `\uFEFF${exported}`);
    expect(await place.store(['import', 'marked.jsonl'], { DATA_DIR: 'marked' })).toMatchObject({ code: 0 });
    expect((await place.store(['export', '-'], { DATA_DIR: 'marked' })).stdout).toBe(exported);
    await writeFile(join(place.directory, 'twice.jsonl'), `\uFEFF\uFEFF${exported}`);
    expect((await place.store(['import', 'twice.jsonl'], { DATA_DIR: 'twice' })).stderr).toContain('no export');
  });

  it('lets keys work and ids continue after an import', async () => {
    const program = await place.start({ PORT: '0', DATABASE_URL: url });
    const { free } = await place.developmentKeys();
    const added = await program.graphql('mutation { addPet(input: { name: "Next", categoryId: 1 }) { id } }', free);
    expect(added).toEqual({ data: { addPet: { id: '10' } } });
    await program.stop();
  });

  it('gives the next id of the export, whatever ids the animals have', async () => {
    const source = await place.database();
    const add = `INSERT INTO pets (name, category_id) VALUES ('Next', 1) RETURNING id::text`;
    await runSql(source, `INSERT INTO pets (id, name, category_id) VALUES (9223372036854775807, 'Last', 1)`);
    for (const expected of ['1', '2', '7']) {
      if (expected === '7') await runSql(source, 'ALTER TABLE pets ALTER id RESTART WITH 7');
      const { stdout } = await place.store(['export', '-'], { DATABASE_URL: source });
      await writeFile(join(place.directory, 'ids.jsonl'), stdout);
      const target = await place.database();
      expect(await place.store(['import', 'ids.jsonl'], { DATABASE_URL: target })).toMatchObject({ code: 0 });
      expect(await runSql(target, add)).toEqual([{ id: expected }]);
      expect(await runSql(source, add)).toEqual([{ id: expected }]);
    }
  });

  it('exports nothing for a role that may not read the next id', async () => {
    const source = new URL(await place.database());
    source.username = `reader_of_${source.pathname.slice(1)}`;
    const admin = (text: string) => runSql(new URL(source.pathname, inject('postgresUrl')).href, text);
    await admin(`CREATE ROLE ${source.username} LOGIN PASSWORD 'postgres'`);
    await admin(`GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${source.username}`);
    const { code, stdout, stderr } = await place.store(['export', '-'], { DATABASE_URL: source.href });
    expect([code, stdout, linesOf(stderr)]).toEqual([1, '', [expect.stringContaining('sequence pets_id_seq')]]);
    // As docs/operating.md says for a role that only serves requests.
    await admin(`GRANT USAGE ON SEQUENCE pets_id_seq TO ${source.username}; SELECT nextval('pets_id_seq')`);
    const granted = await place.store(['export', '-'], { DATABASE_URL: source.href });
    expect([granted.code, granted.stdout]).toEqual([0, expect.stringContaining('"lastPetId":"1"')]);
    await admin(`DROP OWNED BY ${source.username}; DROP ROLE ${source.username}`);
  });

  it('says why an import ends that waits for its input beside a server', async () => {
    await place.start({ PORT: '0', DATA_DIR: 'beside', NODE_ENV: 'production' });
    const env = { PATH: process.env.PATH, DATA_DIR: 'beside' };
    const child = spawn(process.execPath, [STORE, 'import', '-'], { cwd: place.directory, env });
    const [said, closed] = [text(child.stderr), once(child, 'close')];
    child.stdin.on('error', () => undefined).write(exported.slice(0, 1_500));
    await sleep(12_000);
    child.stdin.end(exported.slice(1_500));
    expect(await closed).toEqual([1, null]);
    expect(linesOf(await said)).toEqual([expect.stringContaining('the store waited too long for the next message')]);
  });

  it('ends an import that has failed although its input goes on', async () => {
    const env = { PATH: process.env.PATH, DATABASE_URL: await place.database() };
    const child = spawn(process.execPath, [STORE, 'import', '-'], { cwd: place.directory, env });
    const [said, closed] = [text(child.stderr), once(child, 'close')];
    child.stdin.on('error', () => undefined).write('garbage\n');
    expect(await closed).toEqual([1, null]);
    expect(linesOf(await said)).toEqual([expect.stringContaining('this is no export of an animal store')]);
  });

  it('finds what others add while an import begins', async () => {
    const target = await place.database();
    const other = new pg.Client({ connectionString: target });
    await other.connect();
    await other.query(`BEGIN; INSERT INTO pets (name, category_id) VALUES ('Rex', 1)`);
    const importing = place.store(['import', FILE], { DATABASE_URL: target });
    await statementWaits(target);
    await other.query('COMMIT');
    await other.end();
    expect((await importing).stderr).toContain('the store is not empty (pets: 1)');
  });

  it('overwrites no file that appears while it exports', async () => {
    const source = await place.database();
    const file = join(place.directory, 'late.jsonl');
    const exporting = await whileLocked(source, async () => {
      const started = place.store(['export', 'late.jsonl'], { DATABASE_URL: source });
      await statementWaits(source);
      await writeFile(file, 'mine');
      return { started };
    });
    expect(await exporting.started).toMatchObject({ code: 1, stderr: expect.stringContaining('late.jsonl') });
    expect(await readFile(file, 'utf8')).toBe('mine');
  });

  it('refuses a store that is not empty, and files that are incomplete, damaged, newer or something else', async () => {
    const full = await place.store(['import', FILE], { DATABASE_URL: url });
    expect([full.code, linesOf(full.stderr)]).toEqual([
      1,
      [
        expect.stringMatching(
          /the store is not empty \(pets: 10, api_keys: 3, .*\): name a new one with DATABASE_URL or/,
        ),
      ],
    ]);
    const empty = await place.database();
    const lines = linesOf(exported);
    for (const [text, said] of [
      [lines.slice(0, 5).join('\n'), 'incomplete'],
      [`${lines.slice(0, -1).join('\n')}\n`, 'incomplete'],
      [exported.slice(0, -1), 'incomplete'],
      [exported.replace('Bella', 'Bolla'), 'checksum'],
      [exported + exported, 'more follows its checksum'],
      [`${exported}{"x":1}`, 'more follows its checksum'],
      [exported.replace('"category_id"', '"category_id","colour"'), 'newer'],
      [exported.replace('"tables":[', '"tables":[{"name":"orders","columns":["id"],"rows":0},'), 'newer'],
      [exported.replace('"version":1', '"version":2'), 'of a newer version of the program: its version is 2'],
      [exported.replace(/"version":1.*/, '"version":3}'), 'of a newer version of the program: its version is 3'],
      ['{"animals":[]}\n', 'no export'],
      [exported.replace('"tables":[', '"tables":null,"others":['), 'damaged: its first line cannot be read'],
      [exported.slice(0, 100) + exported.slice(101), 'damaged: its first line cannot be read'],
    ] as const) {
      await writeFile(join(place.directory, 'wrong.jsonl'), text);
      const { code, stderr } = await place.store(['import', 'wrong.jsonl'], { DATABASE_URL: empty });
      expect([code, linesOf(stderr)]).toEqual([1, [expect.stringContaining(said)]]);
      expect(stderr).toContain('wrong.jsonl was not imported: ');
    }
    const missing = await place.store(['import', 'missing.jsonl'], { DATABASE_URL: empty });
    expect([missing.code, linesOf(missing.stderr)]).toEqual([1, ['store: missing.jsonl: no such file or directory']]);
    const folder = await place.store(['import', '.'], { DATABASE_URL: empty });
    expect(linesOf(folder.stderr)).toEqual([
      expect.stringMatching(/^store: \. was not imported: illegal operation on a directory \(the store on \S+\)$/),
    ]);
    const nowhere = await place.store(['export', 'no/where.jsonl'], { DATABASE_URL: url });
    expect(linesOf(nowhere.stderr)).toEqual([
      expect.stringMatching(/^store: .*no\/where.jsonl.*: no such file or directory \(the store on \S+\)$/),
    ]);
    expect(await runSql(empty, 'SELECT id FROM pets')).toEqual([]);
    await writeFile(join(place.directory, 'left.jsonl.partial'), '');
    const left = await place.store(['export', 'left.jsonl'], { DATABASE_URL: url });
    expect([left.code, linesOf(left.stderr)]).toEqual([1, [expect.stringContaining('delete it first')]]);
    const again = await place.store(['export', FILE], { DATABASE_URL: url });
    expect([again.code, linesOf(again.stderr)]).toEqual([1, [expect.stringContaining('exists')]]);
  });
});
