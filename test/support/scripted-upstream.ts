import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/** A request that the upstream received. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly at: number;
}

/** Responds to one request. `index` is its number, from 0. */
export type Script = (request: SeenRequest, response: ServerResponse, index: number) => void;

/** An upstream on a real socket whose responses the test writes. */
export interface ScriptedUpstream {
  /** The base address, for `UPSTREAM_URL`. */
  readonly url: string;
  /** Every request except the gateway's own checks, which it refuses for want of a key. */
  readonly seen: SeenRequest[];
  /** The number of requests that the gateway cancelled before it had the response. */
  readonly cancelled: () => number;
  /** The number of the gateway's own checks. */
  readonly checks: () => number;
  play(script: Script): void;
  /** Resets the connection of every request, checks included, until the next `play`. */
  goAway(): void;
  close(): Promise<void>;
}

export async function startScriptedUpstream(script: Script = answerAnimals): Promise<ScriptedUpstream> {
  const seen: SeenRequest[] = [];
  const sockets = new Set<Socket>();
  let playing = script;
  let cancelled = 0;
  let checks = 0;
  let isAway = false;
  const server = createServer((request, response) => void receive(request, response));
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  const { port } = server.address() as AddressInfo;

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const at = Date.now();
    let body = '';
    for await (const chunk of request) body += String(chunk);
    if (isAway) {
      response.socket?.destroy();
      return;
    }
    if (request.url === '/v1/pets?limit=1' && request.headers.authorization === undefined) {
      checks += 1;
      send(response, 401, { code: 'unauthorized', message: 'No key.', status: 401 });
      return;
    }
    response.on('close', () => {
      if (!response.writableFinished) cancelled += 1;
    });
    const path = (request.url ?? '').replace('/v1', '');
    const entry = { method: request.method ?? '', path, headers: request.headers, body, at };
    playing(entry, response, seen.push(entry) - 1);
  }

  return {
    url: `http://127.0.0.1:${port}/v1`,
    seen,
    cancelled: () => cancelled,
    checks: () => checks,
    play(next) {
      playing = next;
      isAway = false;
      seen.length = 0;
      cancelled = 0;
    },
    goAway() {
      isAway = true;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((closed) => server.close(() => closed()));
    },
  };
}

/** Sends JSON, optionally with more headers. */
export function send(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

/** Responds like a store without limits. */
export function answerAnimals({ method, path }: SeenRequest, response: ServerResponse): void {
  const id = /^\/pets\/(-?\d+)$/.exec(path)?.[1];
  if (id !== undefined) send(response, 200, `{"id":${id},"name":"Animal ${id}","categoryId":1}`);
  else if (method === 'POST') send(response, 201, '{"id":7,"name":"New","categoryId":1}');
  else if (path.includes('&after=')) {
    const { limit, after } = Object.fromEntries(new URL(path, 'http://store').searchParams);
    const ids = Array.from({ length: Number(limit) }, (_, index) => Number(after) + 1 + index);
    send(
      response,
      200,
      ids.map((each) => ({ id: each, name: `Animal ${each}`, categoryId: 1 })),
    );
  } else send(response, 200, '[{"id":1,"name":"Bella","categoryId":9007199254740993,"status":"sold"}]');
}

/** The limit headers that this program sends for a free key. */
export function freeLimits(minuteLeft: number, dayLeft = 1_000, seconds = 60): Record<string, string> {
  return {
    'RateLimit-Policy': '"minute";q=60;w=60, "day";q=1000;w=86400',
    RateLimit: `"minute";r=${minuteLeft};t=${seconds}, "day";r=${dayLeft};t=86400`,
  };
}
