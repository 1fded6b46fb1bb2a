import { buildConnector, Client } from 'undici';
import { Attempt, type ObserveRequest, type UpstreamRequest } from './attempt.js';
import { FairQueue } from './fair-queue.js';
import { createRequestIds, type RequestIds } from './request-ids.js';

/** Sends requests to the upstream. */
export interface UpstreamClient {
  send(request: UpstreamRequest): Attempt;
  load(): UpstreamLoad;
  close(): Promise<void>;
}

/** What the client is doing now. */
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
  /** The most connections that are open at the same time. */
  readonly connections: number;
  readonly connectTimeoutMs: number;
  readonly ids?: RequestIds;
  readonly observe?: ObserveRequest | undefined;
}

/** A key may use this many times as many connections as it leaves free, so that a new key always finds one. */
const SHARE = 3;
/**
 * If the upstream returns no ids, a connection should rest this long, in milliseconds, before its next request. A kernel
 * may hold back the second of two responses for 40 ms.
 */
const REST_MS = 50;
/** How long a new connection waits, in milliseconds, for a response that nobody has asked for. */
const LISTEN_MS = 5;
/** A connection in constant use rests after this many requests, for twice the usual time of a response. */
const USES_WITHOUT_REST = 8;
const LONGEST_REST_MS = 200;

interface Connection {
  /** One connection, which undici opens when it is needed, and again after it was closed. */
  readonly client: Client;
  /** When its last response ended, by `performance.now()`. */
  usedAt: number;
  /** Requests since it last rested. */
  uses: number;
}

/**
 * Creates a client with kept-alive connections. It follows no redirects, keeps no cookies and retries nothing.
 * Requests wait in one queue, in which the keys take turns, so that no key can use all connections.
 *
 * Each connection has one request at a time. undici closes a connection that receives a response without a request. If
 * the upstream does not return the request's id, that is the only way to detect a surplus response, so connections then
 * rest between requests. undici's Pool always takes the first free connection, which has rested least.
 */
export function createUpstreamClient(options: UpstreamClientOptions): UpstreamClient {
  const { url, connections, connectTimeoutMs, ids = createRequestIds(), observe } = options;
  const { origin, pathname } = new URL(url);
  const base = pathname.replace(/\/+$/, '');
  // No timeouts here: callers cancel at their own deadlines.
  const clientOptions = { connect, headersTimeout: 0, bodyTimeout: 0 };
  const openConnection = buildConnector({ timeout: connectTimeoutMs });
  const clients: Client[] = [];
  /** The connections without a request, in the order of their last use. */
  const idle: Connection[] = [];
  const waiting = new FairQueue<Attempt>();
  /** The connections that each key uses. */
  const used = new Map<string, number>();
  let free = connections;
  let active = 0;
  let usualMs = 0;

  return {
    send(request) {
      const attempt = new Attempt(request, ids, observe);
      waiting.push(request.keyId, attempt);
      sendNext();
      return attempt;
    },
    load: () => ({
      active,
      idle: Math.max(0, clients.filter(({ stats }) => stats.connected).length - active),
      waiting: [...waiting].filter(({ isSettled }) => !isSettled).length,
    }),
    close: async () => {
      await Promise.all(clients.map((client) => client.destroy()));
    },
  };

  /** Sends waiting requests while there are free connections. */
  function sendNext(): void {
    while (free > 0) {
      const attempt = waiting.shift((keyId) => (used.get(keyId) ?? 0) < SHARE * free);
      if (!attempt) return;
      if (!attempt.isSettled) dispatch(attempt, takeConnection(performance.now()));
    }
  }

  function dispatch(attempt: Attempt, connection: Connection): void {
    const { method, path, headers, body, keyId } = attempt.request;
    const startedAt = performance.now();
    free -= 1;
    active += 1;
    used.set(keyId, (used.get(keyId) ?? 0) + 1);
    attempt.onDone = () => {
      active -= 1;
      const left = (used.get(keyId) ?? 0) - 1;
      if (left > 0) used.set(keyId, left);
      else used.delete(keyId);
      connection.usedAt = performance.now();
      usualMs += (connection.usedAt - startedAt - usualMs) / 16;
      const restMs = toRest(connection);
      if (restMs === 0) setImmediate(release, connection);
      else setTimeout(release, restMs, connection).unref();
    };
    const sent = { ...headers, 'x-request-id': attempt.id };
    connection.client.dispatch({ method, path: base + path, headers: sent, body: body ?? null }, attempt);
  }

  function connect(to: buildConnector.Options, callback: buildConnector.Callback): void {
    openConnection(to, (...opened) => {
      const [, socket] = opened;
      if (!socket || ids.isReturned) callback(...opened);
      else {
        setTimeout(() => {
          if (socket.readableLength > 0) socket.destroy(new Error('a response without a request'));
          callback(null, socket);
        }, LISTEN_MS);
      }
    });
  }

  /** Makes a connection free in a later turn of the event loop, when undici has seen what follows the response. */
  function release(connection: Connection): void {
    free += 1;
    idle.push(connection);
    sendNext();
  }

  /** The connection used last, so that few stay open; without ids in responses, the last that has rested. */
  function takeConnection(now: number): Connection {
    const restMs = ids.isReturned ? 0 : REST_MS;
    let index = idle.findLastIndex(({ usedAt }) => now - usedAt >= restMs);
    if (index < 0 && clients.length === connections) index = 0;
    const [connection] = index < 0 ? [] : idle.splice(index, 1);
    if (connection) {
      if (now - connection.usedAt >= REST_MS) connection.uses = 0;
      return connection;
    }
    const client = new Client(origin, clientOptions);
    clients.push(client);
    return { client, usedAt: now, uses: 0 };
  }

  /**
   * How long a connection rests. If its responses have shifted, the one that is missing arrives meanwhile, and undici
   * closes the connection.
   */
  function toRest(connection: Connection): number {
    connection.uses += 1;
    if (ids.isReturned || connection.uses < USES_WITHOUT_REST) return 0;
    connection.uses = 0;
    return Math.min(1 + 2 * usualMs, LONGEST_REST_MS);
  }
}
