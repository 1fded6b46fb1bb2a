import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as nextPass, setTimeout as sleep } from 'node:timers/promises';
import type { HttpServer } from './server.js';

/** How many connections may wait to be accepted. Linux allows no more. */
const BACKLOG = 4_096;

/** Starts listening. Returns a URL that a browser on this machine can open, such as `http://127.0.0.1:4000`. */
export async function listen(server: Server, host: string, port: number): Promise<string> {
  await once(server.listen({ port, host, backlog: BACKLOG }), 'listening');
  const { port: actual } = server.address() as AddressInfo;
  const name = ['0.0.0.0', '::'].includes(host) ? '127.0.0.1' : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${actual}`;
}

const LOOK_EVERY_MS = 20;
/** Clients that send their next request when they have the last response do so in this time, in milliseconds. */
const QUIET_MS = 10;
/** How often to wait for this long for clients that keep sending. */
const MAX_WAITS = 20;

/**
 * Closes a server without failing requests, as docs/faults.md describes. When the program stops listening, the kernel
 * resets the connections that the program has not taken. So it holds new requests until no more arrive.
 * @param graceMs - how long requests in flight may take, in milliseconds
 * @param noticeMs - how long the server listens even if no request is in flight, in milliseconds
 */
export async function drain(
  { server, inFlight, holdUntil }: HttpServer,
  graceMs: number,
  noticeMs: number,
): Promise<void> {
  const startedAt = performance.now();
  const elapsed = (): number => performance.now() - startedAt;
  while ((inFlight() > 0 || elapsed() < noticeMs) && elapsed() < graceMs / 2) await sleep(LOOK_EVERY_MS);
  const quiet = untilQuiet(server);
  holdUntil(quiet);
  await quiet;
  const closed = new Promise((resolve) => server.close(resolve));
  while (inFlight() > 0 && elapsed() < graceMs) await sleep(LOOK_EVERY_MS);
  // Browsers open connections in advance, which do not count as idle.
  server.closeAllConnections();
  await closed;
}

/** Waits until no connection and no request has arrived for a short time. */
async function untilQuiet(server: Server): Promise<void> {
  let arrivals = 1;
  const count = (): unknown => (arrivals += 1);
  server.on('connection', count).on('request', count);
  for (let waits = 0; arrivals > 0 && waits < MAX_WAITS; waits += 1) {
    arrivals = 0;
    await sleep(QUIET_MS);
    // When the event loop was busy, timers run before it takes what has arrived.
    await nextPass();
  }
  server.off('connection', count).off('request', count);
}
