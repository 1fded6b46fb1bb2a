import { buildConnector, Client } from 'undici';
import {
  createRequestIds,
  exchange,
  toCancelled,
  type Outcome,
  type UpstreamFailure,
  type UpstreamRequest,
} from './exchange.js';
import { timedOut } from './wire.js';

export type Connections = ReturnType<typeof createConnections>;

/** A key may use this many times as many connections as it leaves free, so that a new key always finds one. */
const SHARE = 3;
/**
 * If the upstream returns no ids, a connection should rest this long, in milliseconds, before its next request. A
 * kernel may hold back the second of two responses for 40 ms.
 */
const REST_MS = 50;
/** How long a new connection waits, in milliseconds, for a response that nobody has asked for. */
const LISTEN_MS = 5;
/** The longest time for a probe, in milliseconds, so that the upstream's recovery is detected soon. */
const MAX_PROBE_MS = 2_500;

interface Connection {
  /** Has one connection, which undici opens when it is needed, and again after it was closed. */
  readonly client: Client;
  /** When its last response ended, by `performance.now()`. */
  usedAt: number;
}

/** Gives a waiting request its connection, or the reason why it waits no longer. */
type Start = (turn: Connection | UpstreamFailure) => void;

/**
 * Creates kept-alive connections. They follow no redirects, keep no cookies and retry nothing. While requests
 * wait, the keys take turns, and no key can use all connections.
 *
 * Each connection has one request at a time. undici closes a connection that receives a response without a request. If
 * the upstream does not return the request's id, that is the only way to detect a surplus response, so connections then
 * rest between requests while there are enough of them.
 */
export function createConnections(options: {
  /** The base address, such as `https://host/v1`. */
  readonly url: string;
  /** The most connections that are open at the same time. */
  readonly connections: number;
  readonly connectTimeoutMs: number;
  /**
   * Called for every request that was sent or should have been sent.
   * @param outcome - the status, or why there is none
   * @param seconds - the time since the request was created, including the wait for a connection
   */
  readonly observe?: (method: string, outcome: number | UpstreamFailure['kind'], seconds: number) => void;
}) {
  const { url, connections, connectTimeoutMs, observe } = options;
  const ids = createRequestIds();
  const { origin, basePath } = parseBaseUrl(url);
  // No timeouts here: callers cancel at their own deadlines.
  const clientOptions = { connect, headersTimeout: 0, bodyTimeout: 0 };
  const openConnection = buildConnector({ timeout: connectTimeoutMs });
  const probeMs = Math.min(connectTimeoutMs, MAX_PROBE_MS);
  const probeClient = new Client(origin, { connect: { timeout: probeMs } });
  // What answers a probe may be a file, which knows no ids. The probe's connection has no other requests.
  const probeIds = { create: (requestId: string) => ids.create(requestId), matches: () => true };
  const clients: Client[] = [];
  /** The connections without a request, in the order of their last use. */
  const idle: Connection[] = [];
  /** The waiting requests of each key, the oldest first. The key whose turn is next comes first. */
  const lines = new Map<string, Set<Start>>();
  /** The connections that each key uses. */
  const used = new Map<string, number>();
  let free = connections;

  return {
    /** Sends a request when it is its key's turn. */
    async send(request: UpstreamRequest): Promise<Outcome> {
      const keyId = request.call.key?.id ?? '';
      const createdAt = performance.now();
      const isFirst = mayStart(keyId) && !lines.has(keyId);
      const turn = isFirst ? take(keyId) : await waitForTurn(keyId, request);
      const outcome =
        'kind' in turn
          ? turn
          : await exchange(turn.client, basePath + request.path, request, ids, () => finish(keyId, turn));
      request.progress = undefined;
      report(request.method, outcome, createdAt);
      return outcome;
    },
    /** Requests the interface description, which needs no key, on a connection of its own: it waits for no request. */
    async probe(): Promise<Outcome> {
      const path = '/openapi.json';
      const request: UpstreamRequest = { call: { requestId: 'probe' }, method: 'GET', path, headers: {} };
      const createdAt = performance.now();
      const timer = setTimeout(() => request.progress?.cancel(timedOut()), probeMs);
      const outcome = await exchange(probeClient, basePath + path, request, probeIds, () => undefined);
      clearTimeout(timer);
      report(request.method, outcome, createdAt);
      return outcome;
    },
    load: () => ({
      active: connections - free,
      idle: Math.max(0, clients.filter(({ stats }) => stats.connected).length - (connections - free)),
      waiting: [...lines.values()].reduce((sum, line) => sum + line.size, 0),
    }),
    close: async () => {
      await Promise.all([...clients, probeClient].map((client) => client.destroy()));
    },
  };

  function mayStart(keyId: string): boolean {
    return (used.get(keyId) ?? 0) < SHARE * free;
  }

  function waitForTurn(keyId: string, request: UpstreamRequest): Promise<Connection | UpstreamFailure> {
    return new Promise((start) => {
      const line = lines.get(keyId) ?? new Set();
      lines.set(keyId, line.add(start));
      request.progress = {
        cancel(reason) {
          line.delete(start);
          start(toCancelled(reason, false));
          return false;
        },
      };
      startNext();
    });
  }

  function take(keyId: string): Connection {
    free -= 1;
    used.set(keyId, (used.get(keyId) ?? 0) + 1);
    // The connection used last, so that few stay open; without ids in responses, the last that has rested.
    const usedBefore = performance.now() - (ids.isReturned ? 0 : REST_MS);
    const index = idle.findLastIndex(({ usedAt }) => usedAt <= usedBefore);
    if (index >= 0 || clients.length === connections) {
      return idle.splice(Math.max(0, index), 1)[0] as Connection;
    }
    const client = new Client(origin, clientOptions);
    clients.push(client);
    return { client, usedAt: 0 };
  }

  function finish(keyId: string, connection: Connection): void {
    const left = (used.get(keyId) ?? 0) - 1;
    if (left > 0) used.set(keyId, left);
    else used.delete(keyId);
    connection.usedAt = performance.now();
    // In a later turn of the event loop, undici has seen what follows the response.
    setImmediate(() => {
      free += 1;
      idle.push(connection);
      startNext();
    });
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

  function startNext(): void {
    // The loop comes to a key again if it has more requests, because its line is then added at the end.
    for (const [keyId, line] of lines) {
      if (free === 0) return;
      if (!mayStart(keyId)) continue;
      lines.delete(keyId);
      const [start] = line;
      if (!start) continue;
      line.delete(start);
      if (line.size > 0) lines.set(keyId, line);
      start(take(keyId));
    }
  }

  /** Measures a request, unless it was not to be sent. */
  function report(method: string, outcome: Outcome, createdAt: number): void {
    const { kind } = outcome;
    if (kind === 'refused' || (kind === 'cancelled' && !outcome.wasSent)) return;
    observe?.(method, kind === 'answer' ? outcome.status : kind, (performance.now() - createdAt) / 1_000);
  }
}

/** Splits a store's base address into its origin and its path, which has no slash at its end. */
export function parseBaseUrl(url: string): { readonly origin: string; readonly basePath: string } {
  const { origin, pathname } = new URL(url);
  return { origin, basePath: pathname.replace(/\/+$/, '') };
}
