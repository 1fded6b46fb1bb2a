import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { busyTimeOf, cpuTimeOf, startProcess } from '../machine.mjs';
import { checkResponse, toBytes } from '../requests.mjs';

const SCRIPT = fileURLToPath(new URL('load.lua', import.meta.url));

/** @throws Error that says how to install wrk */
export function requireWrk() {
  if (spawnSync('wrk', ['-v']).error)
    throw new Error('the benchmark needs wrk (https://github.com/wg/wrk): apt-get install wrk');
}

/** Sends requests one by one. @throws Error unless every response is correct */
export async function checkServer(port, requests) {
  for (const request of requests) checkResponse(request, await send(port, request));
}

/** Sends one request. */
export async function send(port, { method, path, headers, body }) {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers, body: body || undefined });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/**
 * Writes requests for wrk: the length of each in bytes, a line feed, its bytes.
 * @param pipelined - how often each is sent before its first response is read
 */
export function writeRequests(file, requests, pipelined = 1) {
  const texts = requests.map((request) => toBytes(request).repeat(pipelined));
  const parts = texts.map((bytes) => `${Buffer.byteLength(bytes)}\n${bytes}`);
  writeFileSync(file, parts.join(''));
}

/** Sends the requests of a file in turn. `busy` and `others` are the shares of the server's core. @throws Error if a response failed */
export async function measure({ server, file, connections, seconds, cores }) {
  const before = { cpu: cpuTimeOf(server.pid), busy: busyTimeOf(cores.server), at: performance.now() };
  const wrk = await runWrk(server.port, file, connections, seconds, cores.load);
  server.assertAlive();
  const cpu = cpuTimeOf(server.pid) - before.cpu;
  const elapsed = (performance.now() - before.at) / 1_000;
  const { requests, failed, socketErrors, duration, p50, p99 } = wrk;
  if (failed + socketErrors > 0)
    throw new Error(`${failed} of ${requests} responses were not 200 or had errors; ${socketErrors} socket errors`);
  return {
    requests,
    perSecond: requests / (duration / 1e6),
    p50: p50 / 1_000,
    p99: p99 / 1_000,
    cpuMicros: (cpu / requests) * 1e6,
    busy: cpu / elapsed,
    others: Math.max(0, (busyTimeOf(cores.server) - before.busy - cpu) / elapsed),
  };
}

/**
 * Runs wrk with the requests of a file in turn. Reading long responses would take the core that others need too.
 * @param isNice - leaves the core to others that load the server
 */
export async function runWrk(port, file, connections, seconds, core, { isUnchecked = false, isNice = false } = {}) {
  const options = ['-t', '1', '-c', String(connections), '-d', `${seconds}s`, '--timeout', '10s', '-s', SCRIPT];
  const [command, ...first] = isNice ? ['nice', '-n', '19', 'wrk'] : ['wrk'];
  const child = startProcess(core, command, [
    ...first,
    ...options,
    `http://127.0.0.1:${port}`,
    '--',
    file,
    ...(isUnchecked ? ['unchecked'] : []),
  ]);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  await once(child, 'close');
  const [line] = /^\{.*\}$/m.exec(output) ?? [];
  if (line === undefined) throw new Error(`wrk failed: ${output}`);
  return JSON.parse(line);
}

/** Sends the request of a file, which never ends, over each connection, and again when it is closed. Returns what `runWrk` does. */
export async function holdRequests(port, file, connections, seconds) {
  const text = readFileSync(file);
  const bytes = text.subarray(text.indexOf(10) + 1);
  const statuses = {};
  const sockets = new Set();
  let isOver = false;
  const open = () => {
    if (isOver) return;
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    sockets.add(socket);
    socket.once('data', (head) => {
      const [, status] = /^HTTP\/1\.1 (\d+)/.exec(head.toString('latin1')) ?? [];
      statuses[status] = (statuses[status] ?? 0) + 1;
    });
    socket.on('close', () => {
      sockets.delete(socket);
      setTimeout(open, 10);
    });
    socket.write(bytes);
  };
  for (let count = 0; count < connections; count += 1) open();
  await sleep(seconds * 1_000);
  isOver = true;
  for (const socket of sockets) socket.destroy();
  return { statuses, duration: seconds * 1e6 };
}
