import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { StoreError, toErrorBody, toStoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { createRequestLog, type RequestLog } from '../observability/request-log.js';
import type { Tracer } from '../observability/tracing.js';
import type { Cors } from './cors.js';
import { Exchange, type Reply } from './exchange.js';
import { formatLimitHeaders } from './limit-headers.js';
import { PreparedResponse } from './prepared-response.js';
import { endRequestSpan, startRequestSpan } from './server-span.js';
import { discardRest } from './unwanted-body.js';

/** Answers one request. It may throw: a StoreError becomes an Error body, anything else a plain 500. */
export type Handler = (exchange: Exchange) => Promise<Reply> | Reply;

export interface HttpServerOptions {
  readonly handler: Handler;
  readonly cors: Cors;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly tracer: Tracer;
  readonly trustProxy: boolean;
  /** Answers what there is no time for, before anything is done for it: it is neither logged nor measured. */
  readonly refuse?: (exchange: Exchange) => Reply | undefined;
  /** True once the server is to be closed: connections are then told not to come back. */
  readonly isDraining: () => boolean;
}

export interface HttpServer {
  readonly server: Server;
  /** Requests whose answers are not complete. */
  readonly inFlight: () => number;
}

/** Beyond so many connections new ones are closed at once: each costs memory, and a process has only so many descriptors. */
const MAX_CONNECTIONS = 10_000;
/** Slow senders are cut within fifteen seconds: after this long, and up to a second later. */
const REQUEST_TIMEOUT_MS = 13_000;
const LOOK_EVERY_MS = 1_000;

/** Makes the HTTP server: request ids, CORS, one log line and one measurement for every request. */
export function createHttpServer(options: HttpServerOptions): HttpServer {
  let inFlight = 0;
  const requestLog = createRequestLog(options.log);
  const receive = (request: IncomingMessage, response: PreparedResponse): void => {
    const exchange = new Exchange(request, response, options.trustProxy);
    const refusal = options.refuse?.(exchange);
    if (refusal) {
      send(exchange, refusal, options);
      return;
    }
    startRequestSpan(exchange, options.tracer);
    inFlight += 1;
    response.on('close', () => {
      inFlight -= 1;
      finish(exchange, requestLog, options.metrics);
    });
    void serve(exchange, options);
  };
  const server = createServer(
    {
      ServerResponse: PreparedResponse,
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: LOOK_EVERY_MS,
      // Asked for here, where the refusal is an Error body.
      requireHostHeader: false,
    },
    receive,
  );
  // A body that waits to be asked for is asked for by whoever reads it.
  server.on('checkContinue', receive);
  // Any other expectation may be ignored: https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1
  server.on('checkExpectation', receive);
  server.keepAliveTimeout = 65_000;
  server.maxConnections = MAX_CONNECTIONS;
  server.on('clientError', refuseConnection);
  return { server, inFlight: () => inFlight };
}

async function serve(exchange: Exchange, options: HttpServerOptions): Promise<void> {
  let reply: Reply;
  try {
    requireHost(exchange.request);
    requireFewHeaders(exchange.request);
    reply = await options.handler(exchange);
  } catch (thrown) {
    reply = errorReply(exchange, thrown, options.log);
  }
  if (!exchange.response.destroyed) send(exchange, reply, options);
}

function send(exchange: Exchange, reply: Reply, { cors, isDraining }: HttpServerOptions): void {
  const { request, response } = exchange;
  if (!request.complete) discardRest(request);
  // Names and values in turn: Node writes such a list as it is, where it would walk an object more than once.
  const headers = ['X-Request-Id', exchange.requestId, 'X-Content-Type-Options', 'nosniff'];
  const bytes = Buffer.byteLength(reply.body);
  if (reply.status !== 204) headers.push('Content-Length', String(bytes));
  if (isDraining()) headers.push('Connection', 'close');
  addHeaders(headers, cors.headers(exchange));
  if (reply.windows) response.addLines(formatLimitHeaders(reply.windows), headers);
  addHeaders(headers, reply.headers);
  response.writeHead(reply.status, headers);
  // Text that is ASCII is the same in both, and Latin-1 takes Node no conversion.
  response.end(reply.body, bytes === reply.body.length ? 'latin1' : 'utf8');
}

function addHeaders(list: string[], headers: Readonly<Record<string, string>>): void {
  for (const name in headers) list.push(name, headers[name] as string);
}

/** https://www.rfc-editor.org/rfc/rfc9112#section-3.2 */
function requireHost({ httpVersion, headers }: IncomingMessage): void {
  if (httpVersion === '1.1' && headers.host === undefined)
    throw new StoreError('invalid_request', 'An HTTP/1.1 request needs a Host header.', {
      headers: { Connection: 'close' },
    });
}

/** Node limits the bytes of names and values, which leaves room for thousands of short ones. */
const MAX_HEADERS = 200;

function requireFewHeaders({ rawHeaders }: IncomingMessage): void {
  if (rawHeaders.length <= 2 * MAX_HEADERS) return;
  throw new StoreError('headers_too_large', `A request may have ${MAX_HEADERS} headers.`);
}

/** The Error body of whatever was thrown; what is unforeseen goes whole into the log, and not to the client. */
export function errorReply(exchange: Exchange, thrown: unknown, log: Log): Reply {
  const error = toStoreError(thrown);
  logFailure(log, error, exchange.requestId);
  return toErrorReply(error);
}

/** An error as REST answers it. */
export function toErrorReply(error: StoreError): Reply {
  return {
    status: error.status,
    headers: { 'Content-Type': 'application/json; charset=utf-8', ...error.headers },
    body: JSON.stringify(toErrorBody(error)),
  };
}

/** Logs what an operator should look at: failures of ours, not mistakes of clients. */
export function logFailure(log: Log, error: StoreError, requestId: string): void {
  if (error.status < 500) return;
  const cause = error.cause instanceof Error ? error.cause : undefined;
  // Another store's words are for the client alone: they may quote its key.
  const message = error.body ? `the upstream answered ${error.body.status}` : error.message;
  log[error.code === 'internal_error' ? 'error' : 'warn']({ requestId, code: error.code, err: cause }, message);
}

function finish(exchange: Exchange, log: RequestLog, metrics: Metrics): void {
  const { response, requestId, method, path, route, logged } = exchange;
  const milliseconds = performance.now() - exchange.startedAt;
  const status = response.writableFinished ? response.statusCode : 499;
  metrics.observeHttp(route, method, status, milliseconds / 1_000);
  endRequestSpan(exchange, status);
  // Probes would drown everything else.
  log(route === 'probe' ? 'debug' : 'info', {
    requestId,
    method,
    path,
    status,
    ms: milliseconds,
    further: logged,
  });
}

const CONNECTION_ERRORS: Readonly<Record<string, readonly [status: string, code: string, message: string]>> = {
  HPE_HEADER_OVERFLOW: [
    '431 Request Header Fields Too Large',
    'headers_too_large',
    'The request headers are too large.',
  ],
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'request_timeout', 'The request took too long to arrive.'],
};

/** How long a refused connection stays open for its answer to be read. */
const LINGER_MS = 1_000;

/** Answers what never became a request, on the bare connection. */
function refuseConnection(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, code, message] = CONNECTION_ERRORS[error.code ?? ''] ?? [
    '400 Bad Request',
    'invalid_request',
    'The request is not valid HTTP.',
  ];
  const body = JSON.stringify({ code, message, status: Number.parseInt(status, 10) });
  // The client may read why, and may not go on sending.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.resume();
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
