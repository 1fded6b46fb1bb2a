import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Starts listening.
 * @returns where, such as `http://127.0.0.1:4000`
 */
export function listen(server: Server, host: string, port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      const { port: actual } = server.address() as AddressInfo;
      resolve(`http://${host.includes(':') ? `[${host}]` : host}:${actual}`);
    });
  });
}

const LOOK_EVERY_MS = 20;

/**
 * Closes a server politely. While requests are in flight it goes on listening, for half of the grace time at the most: a
 * balancer then hears from `/readyz` that it should look elsewhere. Then idle connections are closed, and at the end of
 * the grace time the others.
 * @param inFlight - requests that are being answered
 * @param graceMs - time for them
 */
export async function drain(server: Server, inFlight: () => number, graceMs: number): Promise<void> {
  const startedAt = performance.now();
  while (inFlight() > 0 && performance.now() - startedAt < graceMs / 2) await sleep(LOOK_EVERY_MS);
  const closed = new Promise<void>((resolve) => {
    server.close(() => {
      resolve();
    });
  });
  server.closeIdleConnections();
  const timer = setTimeout(
    () => {
      server.closeAllConnections();
    },
    graceMs - (performance.now() - startedAt),
  );
  await closed;
  clearTimeout(timer);
}
