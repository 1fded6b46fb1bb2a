// What one more instance costs: time to start, memory idle and under load, connections. Usage, after npm run build:
//   node bench/instance-cost.mjs [seconds of load]
// It needs a PostgreSQL server, as the benchmark does (BENCH_DATABASE_URL). Linux only: memory is read from /proc.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { createDatabase } from './machine/database.mjs';
import { killAll, startServer } from './machine/processes.mjs';

const SECONDS = Number(process.argv[2] ?? 15);
const STARTS = 5;
const BUSY_CONNECTIONS = 32;
const IDLE_CONNECTIONS = 1_000;
const QUERY = JSON.stringify({ query: '{ pets(limit: 20) { id name categoryId status } pet(id: 7) { name } }' });

const root = fileURLToPath(new URL('..', import.meta.url));
const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
/** What stands between `node` and the program in `npm start`. */
const flags = scripts.start
  .replace(/^exec node /, '')
  .split(' ')
  .slice(0, -1);
const directory = mkdtempSync(join(tmpdir(), 'instance-cost-'));
const database = await createDatabase(root, 1);
const watcher = new pg.Client({ connectionString: database.url });
await watcher.connect();
try {
  const { server, startMs } = await startSeveral();
  const idle = { memory: memoryOf(server.pid), connections: await countConnections() };
  const held = await hold(server);
  const { requests, peak, connections } = await load(server);
  print({
    'time from start to listening': `${startMs.map((ms) => ms.toFixed(0)).join(', ')} ms`,
    'memory after the start': toMegabytes(idle.memory),
    [`memory under load, at the most (${(requests / SECONDS).toFixed(0)} requests a second for ${SECONDS} s)`]:
      toMegabytes(peak),
    [`memory for each idle client connection, over ${IDLE_CONNECTIONS}`]: `${((held - idle.memory) / IDLE_CONNECTIONS / 1024).toFixed(1)} kB`,
    'connections to PostgreSQL idle, under load': `${idle.connections}, ${connections}`,
  });
} finally {
  killAll();
  await watcher.end();
  await database.drop();
  rmSync(directory, { recursive: true, force: true });
}

/** Starts and stops an instance several times, on a database that is already migrated; the last one stays. */
async function startSeveral() {
  const startMs = [];
  for (;;) {
    const startedAt = performance.now();
    const server = await startServer({
      name: 'instance',
      args: [...flags, `${root}dist/bundle/main.js`],
      env: { DATABASE_URL: database.url },
      directory,
    });
    startMs.push(performance.now() - startedAt);
    if (startMs.length === STARTS) return { server, startMs };
    await server.stop();
  }
}

async function load({ pid, port }) {
  const agent = new Agent({ keepAlive: true, maxSockets: BUSY_CONNECTIONS });
  const end = performance.now() + SECONDS * 1_000;
  let requests = 0;
  const drive = async () => {
    while (performance.now() < end) {
      await ask(agent, port);
      requests += 1;
    }
  };
  let peak = 0;
  let connections = 0;
  const watch = async () => {
    while (performance.now() < end) {
      peak = Math.max(peak, memoryOf(pid));
      connections = Math.max(connections, await countConnections());
      await sleep(100);
    }
  };
  await Promise.all([watch(), ...Array.from({ length: BUSY_CONNECTIONS }, drive)]);
  agent.destroy();
  return { requests, peak, connections };
}

function ask(agent, port) {
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${database.keys[0]}` };
    const sent = request({ agent, port, host: '127.0.0.1', path: '/graphql', method: 'POST', headers }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`status ${response.statusCode}`));
      response.resume().once('end', resolve);
    });
    sent.once('error', reject).end(QUERY);
  });
}

/** The memory of an instance that clients hold connections to without asking anything more. */
async function hold({ pid, port }) {
  const sockets = await Promise.all(
    Array.from({ length: IDLE_CONNECTIONS }, async () => {
      const socket = connect(port, '127.0.0.1');
      socket.write('GET /livez HTTP/1.1\r\nHost: store\r\n\r\n');
      await new Promise((resolve, reject) => socket.once('data', resolve).once('error', reject));
      return socket;
    }),
  );
  const memory = memoryOf(pid);
  for (const socket of sockets) socket.destroy();
  return memory;
}

/** Resident memory in bytes. */
function memoryOf(pid) {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(kilobytes) * 1024;
}

async function countConnections() {
  const { rows } = await watcher.query(
    `SELECT count(*)::int FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'animal-store-gateway'`,
  );
  return rows[0].count;
}

function toMegabytes(bytes) {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}

function print(figures) {
  for (const [what, figure] of Object.entries(figures)) console.log(`${what}: ${figure}`);
}
