// The disk of a store is full: additions get 503, readiness says so until there is space, nothing is half-written.
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findPostgresUser, openPostgresServers } from '../support/installed-postgres.js';
import { describeWith } from '../support/installed-program.js';
import { makePlace, until, type Place } from '../support/process.js';
import { runSql } from '../support/sql.js';

const FULL_MS = process.env.DRILL ? 65_000 : 3_000;

let place: Place;
let disk: string;
let isMounted: boolean;
const cleanups: (() => Promise<void>)[] = [];

beforeEach(async (context) => {
  place = await makePlace();
  disk = join(place.directory, 'disk');
  mkdirSync(disk);
  isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=128m', 'tmpfs', disk]).status === 0;
  const reason = 'mounting a file system takes root';
  if (!isMounted && process.env.CI === 'true') throw new Error(reason);
  if (!isMounted) context.skip(reason);
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
  if (isMounted) spawnSync('umount', ['--lazy', disk]);
  await place.close();
});

const TITLE = 'refuses additions with 503 and says so in /readyz, until there is space again';

describe('the embedded store on a full disk', () => {
  it(TITLE, async () => {
    const env = { DATA_DIR: join(disk, 'store') };
    await place.prepareStore(env.DATA_DIR);
    await fillUp(env);
  });
});

describeWith('postgres', 'a PostgreSQL server on a full disk', () => {
  it(TITLE, async () => {
    const servers = await openPostgresServers();
    cleanups.push(() => servers.close());
    const { url } = await servers.primary();
    const user = findPostgresUser();
    if (user) chownSync(disk, user.uid, user.gid);
    chmodSync(place.directory, 0o755);
    await runSql(url, `CREATE TABLESPACE small LOCATION '${disk}'`);
    await runSql(url, 'CREATE DATABASE animals TABLESPACE small');
    await fillUp({ DATABASE_URL: url.replace(/postgres$/, 'animals') });
  });
});

async function fillUp(store: Record<string, string>): Promise<void> {
  const env = { PORT: '0', SAMPLE_DATA: 'false', LOG_LEVEL: 'fatal', ...store };
  const program = await place.start(env);
  const filler = join(disk, 'filler');
  const limits = ['--per-minute', '1000000', '--per-day', '1000000'];
  const { stdout } = await place.keys(['create', '--plan', 'enterprise', ...limits, '--json'], env);
  const { key } = JSON.parse(stdout) as { key: string };
  const acknowledged = new Map<string, string>();
  const statuses: Record<string, number> = {};
  let count = 0;

  const headers = { Authorization: `Bearer ${key}` };
  async function add(): Promise<number> {
    const name = `${++count} ${'x'.repeat(240)}`;
    const response = await program.fetch('/v1/pets', {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/json', 'Idempotency-Key': String(count) },
      body: JSON.stringify({ name, categoryId: 1 }),
    });
    const { id } = (await response.json()) as { id?: number };
    statuses[response.status] = (statuses[response.status] ?? 0) + 1;
    if (id !== undefined) acknowledged.set(name, String(id));
    return response.status;
  }
  const probe = async (path: string): Promise<number> => (await program.fetch(path)).status;

  expect(await add()).toBe(201);
  spawnSync('sh', ['-c', `cat /dev/zero > ${filler}`]);
  await until('the disk is full', async () => (await add()) !== 201);
  for (let i = 0; i < 100; i++) expect(await add()).toBe(503);
  await until('the probe says so', async () => (await probe('/readyz?backend=true')) === 503);
  await sleep(FULL_MS);
  const full = await program.fetch('/readyz?backend=true');
  expect(full.status).toBe(503);
  expect(await full.text()).toContain('disk');
  expect(await probe('/readyz')).toBe(200);
  const list = await program.fetch('/v1/pets?limit=5', { headers });
  expect(list.status).toBe(200);

  rmSync(filler);
  const freedAt = performance.now();
  await until('the probe says so', async () => (await probe('/readyz?backend=true')) === 200, 3_000);
  const readyMs = performance.now() - freedAt;
  expect(await add()).toBe(201);

  // Another process finds exactly what was acknowledged.
  await program.stop();
  const file = join(place.directory, 'store.jsonl');
  const { code, stderr } = await place.store(['export', file], env);
  expect(code, stderr).toBe(0);
  const stored = readFileSync(file, 'utf8').match(/"\d+ x+"/g) ?? [];
  expect(new Set(stored.map((name) => name.slice(1, -1)))).toEqual(new Set(acknowledged.keys()));
  expect(stored.length).toBe(acknowledged.size);
  console.log(`full-disk: ${acknowledged.size} acknowledged, ${stored.length} stored, ${JSON.stringify(statuses)}`);
  console.log(`the probe is back ${Math.round(readyMs)} ms after there is space`);
}
