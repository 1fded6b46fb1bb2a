import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import pg from 'pg';
import { ANIMAL_COUNT, ANIMALS } from '../data/animals.mjs';
import { movePids, onCoreOf } from './cores.mjs';

const run = promisify(execFile);

export const SERVER_URL = process.env.BENCH_DATABASE_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';

const UNREACHABLE_LIMIT = '2000000000';

const TEN_THOUSAND = { count: ANIMAL_COUNT, fill: fillWithAnimals };

/**
 * Makes a database for this run: migrated by the build under test itself, ten thousand animals, and keys.
 * @param root - where the build is
 * @param stock - other animals: how many, and `fill`, which puts them in with the ids from 1, by a client of `pg`
 * @returns `url`, `keys`, and what the harness does with it between measurements
 */
export async function createDatabase(root, keyCount, { count, fill } = TEN_THOUSAND) {
  const name = `bench_${process.pid}_${Date.now().toString(36)}`;
  const admin = new pg.Client({ connectionString: SERVER_URL });
  await admin.connect().catch(({ message }) => {
    throw new Error(`no PostgreSQL server at BENCH_DATABASE_URL or 127.0.0.1:5432: ${message}`);
  });
  await admin.query(`CREATE DATABASE ${name}`);
  const address = new URL(SERVER_URL);
  address.pathname = `/${name}`;
  const url = address.href;
  const client = new pg.Client({ connectionString: url });

  const drop = async () => {
    await client.end().catch(() => undefined);
    await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    await admin.end();
  };
  try {
    const keys = await createKeys(root, url, keyCount);
    await client.connect();
    await fill(client);
    const { rows } = await client.query('SHOW server_version');
    return {
      url,
      keys,
      client,
      version: rows[0].server_version,
      drop,
      countAdded,
      removeAdded,
      pinBackends,
      backendsCpu,
    };
  } catch (error) {
    await drop();
    throw error;
  }

  async function countAdded() {
    const { rows } = await client.query('SELECT count(*)::int AS added FROM pets WHERE id > $1', [count]);
    return rows[0].added;
  }

  /** Takes out what a server has added, so that the next one finds the same table. */
  async function removeAdded() {
    if ((await countAdded()) === 0) return;
    await client.query('DELETE FROM pets WHERE id > $1', [count]);
    await client.query('VACUUM pets');
  }

  /** Moves the connections' processes to a core, when the server is on this machine and we may. */
  async function pinBackends(core) {
    const { rows } = await client.query('SELECT pid FROM pg_stat_activity WHERE datname = $1', [name]);
    movePids(rows.map(({ pid }) => pid).filter(isPostgres), core);
  }

  /** CPU time of the processes behind the program's connections so far, in seconds, by process id. */
  async function backendsCpu() {
    const { rows } = await client.query(
      `SELECT pid FROM pg_stat_activity WHERE datname = $1 AND application_name = 'animal-store-gateway'`,
      [name],
    );
    return new Map(rows.filter(({ pid }) => isPostgres(pid)).map(({ pid }) => [pid, onCoreOf(pid)]));
  }
}

/** A process id of another machine or container may be anybody's here. */
function isPostgres(pid) {
  const file = `/proc/${pid}/comm`;
  return existsSync(file) && readFileSync(file, 'utf8').startsWith('postgres');
}

async function fillWithAnimals(client) {
  // Vacuuming at its own time, it would fall on one server and not on another.
  await client.query('ALTER TABLE pets SET (autovacuum_enabled = false)');
  await client.query(
    `INSERT INTO pets (id, name, category_id, status)
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[])`,
    ['id', 'name', 'categoryId', 'status'].map((field) => ANIMALS.map((animal) => animal[field])),
  );
  await client.query(`ALTER TABLE pets ALTER COLUMN id RESTART WITH ${ANIMAL_COUNT + 1}`);
  await client.query('VACUUM ANALYZE pets');
}

/** Keys as a user would make them, through the build's own command. */
async function createKeys(root, url, count) {
  const create = async () => {
    const limits = ['--per-minute', UNREACHABLE_LIMIT, '--per-day', UNREACHABLE_LIMIT];
    const args = [`${root}/dist/bundle/keys.js`, 'create', '--plan', 'enterprise', ...limits, '--json'];
    const env = { PATH: process.env.PATH, NODE_ENV: 'production', DATABASE_URL: url };
    const { stdout } = await run(process.execPath, args, { env, timeout: 60_000 });
    return JSON.parse(stdout).key;
  };
  const keys = [await create()];
  while (keys.length < count) {
    const group = Math.min(4, count - keys.length);
    keys.push(...(await Promise.all(Array.from({ length: group }, create))));
  }
  return keys;
}
