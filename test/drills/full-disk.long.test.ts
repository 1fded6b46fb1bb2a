// The embedded store on a file system that fills up: additions get 503, readiness says so, nothing is half-written.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePlace, until, type Place, type Program } from '../support/process.js';

describe('the embedded store on a full disk', () => {
  let place: Place;
  let program: Program;
  let disk: string;
  let env: Record<string, string>;
  let isMounted = false;

  beforeAll(async () => {
    place = await makePlace();
    disk = join(place.directory, 'disk');
    mkdirSync(disk);
    isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=128m', 'tmpfs', disk]).status === 0;
    if (!isMounted) return;
    env = { PORT: '0', SAMPLE_DATA: 'false', LOG_LEVEL: 'fatal', DATA_DIR: join(disk, 'store') };
    await place.prepareStore(env.DATA_DIR);
    program = await place.start(env);
  });
  afterAll(async () => {
    if (isMounted) spawnSync('umount', ['--lazy', disk]);
    await place.close();
  });

  it('refuses additions with 503 and says so in /readyz, until there is space again', async (context) => {
    const reason = 'mounting a file system takes root';
    if (!isMounted && process.env.CI === 'true') throw new Error(reason);
    if (!isMounted) context.skip(reason);
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
    expect(await probe('/readyz')).toBe(200);
    const list = await program.fetch('/v1/pets?limit=5', { headers });
    expect(list.status).toBe(200);

    rmSync(filler);
    const freedAt = performance.now();
    expect(await add()).toBe(201);
    await until('the probe says so', async () => (await probe('/readyz?backend=true')) === 200);
    const readyMs = performance.now() - freedAt;

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
  });
});
