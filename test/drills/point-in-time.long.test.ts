// Restores PostgreSQL to the time before a mistake from a base backup and archived WAL, and a dump.
import { appendFile, chown, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  findPostgresUser,
  openPostgresServers,
  type InstalledPostgres,
  type PostgresServers,
} from '../support/installed-postgres.js';
import { describeWith } from '../support/installed-program.js';
import { createUnlimitedKey, startLoad, type Load } from '../support/load.js';
import { makePlace, until, type Place, type Program } from '../support/process.js';
import { runSql } from '../support/sql.js';

describeWith('pg_basebackup pg_dump', 'backups of PostgreSQL', () => {
  let servers: PostgresServers;
  let primary: InstalledPostgres;
  let place: Place;
  let program: Program;
  let archive: string;

  const start = (url: string): Promise<Program> => place.start({ PORT: '0', DATABASE_URL: url, LOG_LEVEL: 'fatal' });

  beforeAll(async () => {
    servers = await openPostgresServers();
    archive = join(servers.directory, 'archive');
    await mkdir(archive);
    const user = findPostgresUser();
    if (user) await chown(archive, user.uid, user.gid);
    primary = await servers.primary({ archive_mode: 'on', archive_command: `cp %p ${archive}/%f` });
    place = await makePlace();
    program = await start(primary.url);
  });
  afterAll(async () => {
    await place.close();
    await servers.close();
  });

  /** Sends requests for a while. */
  async function load(url: string, key: string): Promise<Load> {
    const running = startLoad({ url, key });
    await sleep(1_000);
    await running.stop();
    return running;
  }

  async function findMissing(url: string, { acknowledged }: Load): Promise<string[]> {
    const rows = await runSql<{ id: string; name: string }>(url, 'SELECT id, name FROM pets');
    const stored = new Map(rows.map(({ id, name }) => [name, id]));
    return [...acknowledged].filter(([name, id]) => stored.get(name) !== id).map(([name]) => name);
  }

  it('restore the moment before a mistake', async () => {
    const key = await createUnlimitedKey(place, primary.url);
    const beforeBackup = await load(program.url, key);
    const data = join(servers.directory, 'restored');
    await servers.run('pg_basebackup', '-D', data, '-d', primary.url, '-c', 'fast');
    const afterBackup = await load(program.url, key);
    await sleep(100);
    const [moment] = await runSql<{ at: string }>(primary.url, 'SELECT clock_timestamp()::text AS at');
    await sleep(100);
    await runSql(primary.url, 'DELETE FROM pets');
    const afterMistake = await load(program.url, key);
    const [wal] = await runSql<{ file: string }>(primary.url, 'SELECT pg_walfile_name(pg_switch_wal()) AS file');
    await until('the WAL is archived', async () => {
      const text = 'SELECT FROM pg_stat_archiver WHERE last_archived_wal >= $1';
      return (await runSql(primary.url, text, [wal?.file])).length === 1;
    });
    await program.stop();
    await primary.stop();

    const settings = [
      `restore_command = 'cp ${archive}/%f %p'`,
      `recovery_target_time = '${moment?.at ?? ''}'`,
      "recovery_target_action = 'promote'",
    ];
    await appendFile(join(data, 'postgresql.auto.conf'), `${settings.join('\n')}\n`);
    await writeFile(join(data, 'recovery.signal'), '');
    const restored = await servers.server(data);
    await restored.start();
    await until('it is the primary', async () => {
      const [row] = await runSql<{ isOver: boolean }>(restored.url, 'SELECT NOT pg_is_in_recovery() AS "isOver"');
      return row?.isOver ?? false;
    });
    program = await start(restored.url);
    expect(await findMissing(restored.url, beforeBackup)).toEqual([]);
    expect(await findMissing(restored.url, afterBackup)).toEqual([]);
    expect(await findMissing(restored.url, afterMistake)).toHaveLength(afterMistake.acknowledged.size);
    const afterRestore = await load(program.url, key);
    expect(afterRestore.acknowledged.size).toBeGreaterThan(0);
    expect(await findMissing(restored.url, afterRestore)).toEqual([]);
    const counts = [beforeBackup, afterBackup, afterMistake].map(({ acknowledged }) => acknowledged.size);
    console.log(`point-in-time: ${counts.slice(0, 2).join(' + ')} restored; ${counts[2] ?? 0} after the mistake gone`);
    primary = restored;
  });

  it('restore a dump, as a role that owns its database alone, where other roles are missing', async () => {
    const key = await createUnlimitedKey(place, primary.url);
    const added = await load(program.url, key);
    await runSql(primary.url, "CREATE ROLE animals LOGIN PASSWORD 'secret'; CREATE ROLE animal_server");
    await runSql(primary.url, 'GRANT SELECT ON pets TO animal_server');
    const file = join(servers.directory, 'animals.dump');
    await servers.run('pg_dump', '--format=custom', `--file=${file}`, primary.url);
    await runSql(primary.url, 'ALTER ROLE animal_server RENAME TO missing_on_the_other_server');
    await servers.run('createdb', `--maintenance-db=${primary.url}`, '--owner=animals', 'animals_restored');
    const url = `postgres://animals:secret@127.0.0.1:${primary.port}/animals_restored`;
    await servers.run('pg_restore', `--dbname=${url}`, '--no-owner', '--no-acl', '--exit-on-error', file);
    expect(await place.migrate(['--check'], { DATABASE_URL: url })).toMatchObject({ code: 0 });
    const other = await start(url);
    expect(await findMissing(url, added)).toEqual([]);
    const more = await load(other.url, key);
    expect(await findMissing(url, more)).toEqual([]);
    const [one, two] = await Promise.all(
      [primary.url, url].map((from) => runSql<{ count: number }>(from, 'SELECT count(*)::int AS count FROM pets')),
    );
    expect(two?.[0]?.count).toBe((one?.[0]?.count ?? 0) + more.acknowledged.size);
    console.log(`dump: ${one?.[0]?.count ?? 0} animals restored`);
  });
});
