import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import pg from 'pg';
import { ANIMAL_COUNT, ANIMALS } from './animals.mjs';
import { moveToCore } from './machine.mjs';
import { commandOf, startProgram } from './servers.mjs';

const run = promisify(execFile);
const SERVER_URL = process.env.BENCH_DATABASE_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';
const UNREACHABLE_LIMIT = '2000000000';

/**
 * Creates a database for this run: migrated by the build that uses it, with ten thousand animals and `keyCount` keys.
 * @param root - the folder of the build
 */
export async function createDatabase(root, { cores, directory }, keyCount = 1) {
  const name = `bench_${process.pid}_${Date.now().toString(36)}`;
  const admin = new pg.Client({ connectionString: SERVER_URL });
  await admin.connect().catch(({ message }) => {
    throw new Error(`no PostgreSQL server at BENCH_DATABASE_URL or 127.0.0.1:5432: ${message}`);
  });
  await admin.query(`CREATE DATABASE ${name}`);
  const url = Object.assign(new URL(SERVER_URL), { pathname: `/${name}` }).href;
  const client = new pg.Client({ connectionString: url });
  const drop = async () => {
    await client.end().catch(() => undefined);
    await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    await admin.end();
  };
  const countAdditions = async () => {
    const { rows } = await client.query('SELECT count(*)::int AS count FROM pets WHERE id > $1', [ANIMAL_COUNT]);
    return rows[0].count;
  };
  try {
    // The program migrates when it starts.
    const server = await startProgram(root, { DATABASE_URL: url }, { core: cores.server, directory });
    await server.stop();
    const keys = [];
    while (keys.length < keyCount) keys.push(await createKey(root, url));
    await client.connect();
    await fill(client);
    const { rows } = await client.query('SHOW server_version_num');
    return {
      client,
      keys,
      version: `PostgreSQL ${Math.floor(rows[0].server_version_num / 10_000)}`,
      /** The environment of a server that uses this database. */
      env: { DATABASE_URL: url },
      /** Moves the processes behind the connections to a core, if PostgreSQL runs on this machine. */
      async pin(core) {
        const { rows } = await client.query('SELECT pid FROM pg_stat_activity WHERE datname = $1', [name]);
        moveToCore(core, rows.map(({ pid }) => pid).filter(isPostgres));
      },
      countAdditions,
      async removeAdditions() {
        if ((await countAdditions()) === 0) return;
        await client.query('DELETE FROM pets WHERE id > $1', [ANIMAL_COUNT]);
        await client.query('VACUUM pets');
      },
      close: drop,
    };
  } catch (error) {
    await drop();
    throw error;
  }
}

/** A process id of another machine or container may belong to any process here. */
function isPostgres(pid) {
  const file = `/proc/${pid}/comm`;
  return existsSync(file) && readFileSync(file, 'utf8').startsWith('postgres');
}

async function fill(client) {
  // Autovacuum would run during the turn of one server and not of another.
  await client.query('ALTER TABLE pets SET (autovacuum_enabled = false)');
  await client.query(
    `INSERT INTO pets (id, name, category_id, status)
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[])`,
    ['id', 'name', 'categoryId', 'status'].map((field) => ANIMALS.map((animal) => animal[field])),
  );
  await client.query(`ALTER TABLE pets ALTER COLUMN id RESTART WITH ${ANIMAL_COUNT + 1}`);
  await client.query('VACUUM ANALYZE pets');
}

/** Creates a key with the command that users have for it. */
async function createKey(root, url) {
  const limits = ['--per-minute', UNREACHABLE_LIMIT, '--per-day', UNREACHABLE_LIMIT];
  const args = [...commandOf(root, 'keys'), 'create', '--plan', 'enterprise', ...limits, '--json'];
  const env = { PATH: process.env.PATH, NODE_ENV: 'production', DATABASE_URL: url };
  const { stdout } = await run(process.execPath, args, { cwd: root, env, timeout: 60_000 });
  return JSON.parse(stdout).key;
}
