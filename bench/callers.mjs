// What a list of 20 costs one key, very many keys in turn, and an agent (MCP): CPU time and requests per second, in one run.
// node bench/callers.mjs [--program DIR] [--keys N] [--seconds N] [--rounds N]
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { createDatabase } from './database.mjs';
import { measure, runWrk, writeRequests } from './load/load.mjs';
import { killAll, moveToCore, planCores } from './machine.mjs';
import { formatRange } from './report.mjs';
import { toRequests, toToolCall } from './requests.mjs';
import { startProgram } from './servers.mjs';

const CONNECTIONS = 32;

const EDITIONS = ['2025-11-25', '2026-07-28'];

async function main() {
  const here = fileURLToPath(new URL('..', import.meta.url));
  const text = (value) => ({ type: 'string', default: value });
  const { values } = parseArgs({
    options: { program: text(here), keys: text('100000'), seconds: text('6'), rounds: text('3') },
  });
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-bench-'));
  const cores = planCores();
  moveToCore(cores.load, [process.pid]);
  const root = resolve(values.program);
  let database;
  try {
    database = await createDatabase(root, { cores, directory });
    const { generateApiKey, digestApiKey } = await import(pathToFileURL(join(root, 'dist/access/api-key.js')).href);
    const many = Array.from({ length: Number(values.keys) }, generateApiKey);
    await database.client.query(
      `INSERT INTO api_keys (id, digest, plan, per_minute, per_day)
       SELECT 'key_' || n, decode(digest, 'hex'), 'enterprise', 2000000000, 2000000000
       FROM unnest($1::text[]) WITH ORDINALITY AS new (digest, n)`,
      [many.map((key) => Buffer.from(digestApiKey(key), 'base64url').toString('hex'))],
    );
    await database.client.query('VACUUM ANALYZE api_keys');
    const server = await startProgram(root, database.env, { core: cores.server, directory });
    const [request] = toRequests('W1', 'apollo', database.keys[0]);
    const withKey = (key) => ({ ...request, headers: { ...request.headers, authorization: `Bearer ${key}` } });
    const callers = {
      'one key': [request],
      [`${many.length} keys`]: many.map(withKey),
      ...Object.fromEntries(EDITIONS.map((edition) => [`MCP ${edition}`, [toToolCall(edition, database.keys[0])]])),
    };
    const figures = new Map();
    for (const [name, requests] of Object.entries(callers)) {
      const file = join(directory, name);
      writeRequests(file, requests);
      await runWrk(server.port, file, CONNECTIONS, 10, cores.load);
      figures.set(name, { file, rounds: [] });
    }
    for (let round = 0; round < Number(values.rounds); round += 1)
      for (const { file, rounds } of figures.values())
        rounds.push(await measure({ server, file, connections: CONNECTIONS, seconds: values.seconds, cores }));
    console.log('| list of 20 | requests/s | CPU, µs | p99, ms |\n| --- | --- | --- | --- |');
    for (const [name, { rounds }] of figures) {
      const range = (of, digits = 0) =>
        formatRange(
          rounds.map((round) => round[of]),
          (value) => value.toFixed(digits),
        );
      console.log(`| ${name} | ${range('perSecond')} | ${range('cpuMicros')} | ${range('p99', 1)} |`);
    }
  } finally {
    killAll();
    await database?.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

main().catch((error) => {
  console.error(`callers: ${error.stack}`);
  process.exitCode = 1;
});
