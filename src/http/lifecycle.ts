import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** Starts listening. Returns the URL, such as `http://127.0.0.1:4000`. */
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
  /** The number of requests without a complete response. */
  readonly inFlight: () => number;
  /** The grace period: how long requests in flight may take, in milliseconds. */
  readonly graceMs: number;
  /** The notice period: how long the server listens even if no request is in flight, in milliseconds. */
  readonly noticeMs: number;
}

/**
 * Closes a server without failing requests. The server listens during the notice period and while requests are in
 * flight, but for at most half of the grace period. During this time, `/readyz` tells load balancers to send requests
 * elsewhere, and `Connection: close` tells clients to close their connections. Then the server closes idle connections,
 * and at the end of the grace period all others.
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
