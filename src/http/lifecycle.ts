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

export interface DrainOptions {
  /** Requests that are being answered. */
  readonly inFlight: () => number;
  /** Time for them, in milliseconds. */
  readonly graceMs: number;
  /** How long to go on listening though nothing is in flight, in milliseconds. */
  readonly noticeMs: number;
}

/**
 * Closes a server politely. For the time of notice, and while requests are in flight, it goes on listening, for half of the
 * grace time at the most: a balancer hears from `/readyz` that it should look elsewhere, and clients with kept-alive
 * connections by `Connection: close` that theirs will end. Then idle connections are closed, and at the end of the grace time
 * the others.
 */
export async function drain(server: Server, { inFlight, graceMs, noticeMs }: DrainOptions): Promise<void> {
  const startedAt = performance.now();
  const isNoticeOver = (): boolean => performance.now() - startedAt >= noticeMs;
  const isHalfOver = (): boolean => performance.now() - startedAt >= graceMs / 2;
  while ((inFlight() > 0 || !isNoticeOver()) && !isHalfOver()) await sleep(LOOK_EVERY_MS);
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
