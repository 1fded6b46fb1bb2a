import { Client } from 'undici';
import { UpstreamExchange, type ObserveRequest, type OutgoingRequest, type Sent } from './upstream-exchange.js';

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
  connections,
  connectTimeoutMs,
  observe,
}: UpstreamClientOptions): UpstreamClient {
  const { origin, pathname } = new URL(url);
  const base = pathname.replace(/\/+$/, '');
  const clients: Client[] = [];
  /** The one used last comes first, so that those not needed are left to close. */
  const idle: Client[] = [];
  /** Those that wait, linked in their order. */
  let first: UpstreamExchange | undefined;
  let last: UpstreamExchange | undefined;
  return {
    send(request) {
      const exchange = new UpstreamExchange(request, proceed, observe);
      const client = idle.pop() ?? (clients.length < connections ? connect() : undefined);
      if (client) dispatch(exchange, client);
      else {
        if (last) last.next = exchange;
        else first = exchange;
        last = exchange;
      }
      return exchange;
    },
    load() {
      let waiting = 0;
      for (let exchange = first; exchange; exchange = exchange.next) if (!exchange.isSettled) waiting += 1;
      return { active: clients.length - idle.length, idle: idle.length, waiting };
    },
    close: async () => {
      await Promise.all(clients.map((client) => client.destroy()));
    },
  };

  function connect(): Client {
    const client = new Client(origin, {
      pipelining: 1,
      connect: { timeout: connectTimeoutMs },
      // Whoever waits for an answer has a time limit of its own, and cancels.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    clients.push(client);
    return client;
  }

  function dispatch(exchange: UpstreamExchange, client: Client): void {
    const { method, path, headers, body } = exchange.request;
    exchange.client = client;
    client.dispatch({ method, path: base + path, headers, body: body ?? null }, exchange);
  }

  /** A connection is free for another request. */
  function proceed(client: Client): void {
    const exchange = takeWaiting();
    if (exchange) dispatch(exchange, client);
    else idle.push(client);
  }

  function takeWaiting(): UpstreamExchange | undefined {
    for (;;) {
      const exchange = first;
      if (!exchange) return undefined;
      first = exchange.next;
      exchange.next = undefined;
      if (!first) last = undefined;
      if (!exchange.isSettled) return exchange;
    }
  }
}
