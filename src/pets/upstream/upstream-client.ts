import { Client } from 'undici';
import type { OutgoingRequest } from './outgoing-request.js';
import { Sending, type ObserveRequest } from './sending.js';
import { UpstreamConnection } from './upstream-connection.js';

/** A request that was sent. */
export type Sent = Pick<Sending, 'cancel'>;

export interface UpstreamClient {
  send(request: OutgoingRequest): Sent;
  /** What is under way just now. */
  load(): UpstreamLoad;
  close(): Promise<void>;
}

export interface UpstreamLoad {
  /** Connections with a request on them. */
  readonly active: number;
  readonly idle: number;
  /** Requests that wait for a connection. */
  readonly waiting: number;
}

export interface UpstreamClientOptions {
  /** The base address, such as `https://host/v1`. */
  readonly url: string;
  readonly connections: number;
  readonly connectTimeoutMs: number;
  readonly observe?: ObserveRequest | undefined;
}

/**
 * Sends requests over kept-alive connections. It follows no redirect, keeps no cookie and retries nothing.
 *
 * Each connection is an undici Client with one request at a time. Requests that find none free wait here: undici's Pool
 * looks at every connection for each of them, and has made much of a request before it waits.
 */
export function createUpstreamClient({
  url,
  connections: maxConnections,
  connectTimeoutMs,
  observe,
}: UpstreamClientOptions): UpstreamClient {
  const { origin, pathname } = new URL(url);
  const base = pathname.replace(/\/+$/, '');
  const connections: UpstreamConnection[] = [];
  /** The one used last comes first, so that those not needed are left to close. */
  const idle: UpstreamConnection[] = [];
  /** Those that wait, linked in their order. */
  let first: Sending | undefined;
  let last: Sending | undefined;
  return {
    send(request) {
      const sending = new Sending(request, observe);
      const connection = idle.pop() ?? (connections.length < maxConnections ? connect() : undefined);
      if (connection) connection.send(sending);
      else {
        if (last) last.next = sending;
        else first = sending;
        last = sending;
      }
      return sending;
    },
    load() {
      let waiting = 0;
      for (let sending = first; sending; sending = sending.next) if (!sending.isSettled) waiting += 1;
      return { active: connections.length - idle.length, idle: idle.length, waiting };
    },
    close: async () => {
      await Promise.all(connections.map((connection) => connection.close()));
    },
  };

  function connect(): UpstreamConnection {
    const client = new Client(origin, {
      pipelining: 1,
      connect: { timeout: connectTimeoutMs },
      // Whoever waits for an answer has a time limit of its own, and cancels.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    const connection = new UpstreamConnection(client, base, proceed);
    connections.push(connection);
    return connection;
  }

  /** A connection is free for another request. */
  function proceed(connection: UpstreamConnection): void {
    const sending = takeWaiting();
    if (sending) connection.send(sending);
    else idle.push(connection);
  }

  function takeWaiting(): Sending | undefined {
    for (;;) {
      const sending = first;
      if (!sending) return undefined;
      first = sending.next;
      sending.next = undefined;
      if (!first) last = undefined;
      if (!sending.isSettled) return sending;
    }
  }
}
