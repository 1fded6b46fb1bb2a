// What a list of 100 costs the server whole, compressed and as a 304: bytes and CPU time per response, in one run.
// node bench/stored.mjs [--program DIR] [--seconds N] [--rounds N]
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createDatabase } from './database.mjs';
import { cpuTimeOf, killAll, moveToCore, planCores } from './machine.mjs';
import { median } from './report.mjs';
import { startProgram } from './servers.mjs';

const CONNECTIONS = 8;
const QUERY = '{ pets(limit: 100) { id name categoryId status } }';
const PATHS = { REST: '/v1/pets?limit=100', GraphQL: `/graphql?query=${encodeURIComponent(QUERY)}` };
const FORMS = ['whole', '304', 'gzip', 'br', 'zstd'];

async function main() {
  const here = fileURLToPath(new URL('..', import.meta.url));
  const text = (value) => ({ type: 'string', default: value });
  const { values } = parseArgs({ options: { program: text(here), seconds: text('4'), rounds: text('3') } });
  const directory = mkdtempSync(join(tmpdir(), 'animal-store-bench-'));
  const cores = planCores();
  moveToCore(cores.load, [process.pid]);
  const root = resolve(values.program);
  let database;
  try {
    database = await createDatabase(root, { cores, directory });
    const server = await startProgram(root, database.env, { core: cores.server, directory });
    const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
    const ask = createRequest(server.port, agent, database.keys[0]);
    const rows = [];
    for (const [face, path] of Object.entries(PATHS)) {
      const { headers } = await ask(path, 'whole');
      for (const form of FORMS) rows.push({ face, path, form, etag: headers.etag, micros: [] });
    }
    for (let round = -1; round < Number(values.rounds); round += 1) {
      for (const row of rows) {
        const before = cpuTimeOf(server.pid);
        const until = performance.now() + Number(values.seconds) * 1_000;
        let count = 0;
        await Promise.all(
          Array.from({ length: CONNECTIONS }, async () => {
            for (; performance.now() < until; count += 1) Object.assign(row, await ask(row.path, row.form, row.etag));
          }),
        );
        // The first round warms the server up.
        if (round >= 0) row.micros.push(((cpuTimeOf(server.pid) - before) / count) * 1e6);
        server.emptyLog();
      }
    }
    agent.destroy();
    console.log('| list of 100 | coding | bytes | CPU, µs | of the whole |\n| --- | --- | --- | --- | --- |');
    for (const { face, form, status, headers, bytes, micros } of rows) {
      const whole = rows.find((row) => row.face === face && row.form === 'whole');
      const coding = status === 304 ? '304' : (headers['content-encoding'] ?? (form === 'whole' ? 'whole' : undefined));
      if (coding === undefined) continue;
      const share = median(micros) / median(whole.micros);
      console.log(`| ${face} | ${coding} | ${bytes} | ${median(micros).toFixed(0)} | ${share.toFixed(2)} |`);
    }
  } finally {
    killAll();
    await database?.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Makes a function that sends one request. @throws Error unless the response is the expected one */
function createRequest(port, agent, key) {
  return (path, form, etag) => {
    const isKnown = form === '304';
    const headers = {
      authorization: `Bearer ${key}`,
      'accept-encoding': form === 'whole' || isKnown ? 'identity' : form,
      ...(isKnown && { 'if-none-match': etag }),
    };
    return new Promise((done, failed) => {
      get({ host: '127.0.0.1', port, path, headers, agent }, (response) => {
        const { statusCode: status, headers: sent, rawHeaders } = response;
        let bytes = Buffer.byteLength(rawHeaders.join('    '));
        response.on('data', (chunk) => (bytes += chunk.length));
        response.on('end', () => {
          if (status === (isKnown ? 304 : 200)) done({ status, headers: sent, bytes });
          else failed(new Error(`HTTP status ${status}`));
        });
      }).once('error', failed);
    });
  };
}

main().catch((error) => {
  console.error(`stored: ${error.stack}`);
  process.exitCode = 1;
});
