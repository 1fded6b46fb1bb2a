import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { toStoreError, type ErrorName, type StoreError } from '../errors.js';
import { createRequestLog, type Log } from '../observability/log.js';
import { CLIENT_GONE, type Metrics } from '../observability/metrics.js';
import { describeSpan } from '../observability/span.js';
import { toConditional } from './conditional.js';
import { createConnections } from './connections.js';
import type { Cors } from './cors.js';
import { addLimitHeaders, toErrorReply, type RoutedReply } from './reply.js';
import { HttpRequest, MAX_HEADERS, readAddress } from './request.js';

export interface HttpServerOptions {
  readonly answer: (request: HttpRequest) => Promise<RoutedReply>;
  readonly cors: Cors;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly trustProxy: boolean;
  /** True once the server is closing. Responses then ask clients to close their connections. */
  readonly isDraining: () => boolean;
  /** For tests. A client that reads nothing for this long is disconnected, up to twice as late. In milliseconds. */
  readonly stallMs?: number;
}

export type HttpServer = ReturnType<typeof createHttpServer>;

/** A client that has not sent its request after this long is disconnected, up to a second later. */
const REQUEST_TIMEOUT_MS = 13_000;

/** More than the URL that `requireValidHead` allows, so that a longer one gets a reply with the reason. */
const MAX_HEAD_BYTES = 24_576;

/** Creates the HTTP server: request ids, CORS, slow clients, one log line and one measurement for each request. */
export function createHttpServer(options: HttpServerOptions) {
  const { answer, cors, log, metrics, trustProxy, isDraining } = options;
  const writeLogLine = createRequestLog(log);
  const logFailures = createFailureLog(log);
  const connections = createConnections(log, options.stallMs);
  let held: Promise<void> | undefined;

  async function receive(message: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!connections.add(message.socket, response)) return;
    const request = new HttpRequest(message, response, readAddress(message, trustProxy));
    if (held) await held;
    let answered: RoutedReply;
    try {
      answered = await answer(request);
    } catch (thrown) {
      answered = { reply: toErrorReply(toStoreError(thrown)), route: 'other' };
    }
    const { reply, route } = answered;
    logFailures(reply.failures, request);
    describeSpan(request.method, route, reply.logged?.operations);
    const finish = (status: number): void => {
      const ms = performance.now() - request.receivedAt;
      metrics.observeHttp(route, request.method, status, reply.failures?.[0]?.code, ms / 1_000);
      writeLogLine(request, answered, status, ms);
    };
    if (response.destroyed) {
      finish(CLIENT_GONE);
      return;
    }
    send(request, answered);
    response.on('close', () => {
      // A client that has its response before its request was complete may leave.
      const isAnswered = response.writableFinished || !message.complete;
      finish(isAnswered ? response.statusCode : CLIENT_GONE);
    });
  }

  function send(request: HttpRequest, { reply: full, windows }: RoutedReply): void {
    const { message, response } = request;
    const reply = toConditional(request, full);
    // Names and values alternately. Node writes such a list directly, but iterates over an object more than once.
    const headers: string[] = [];
    if (windows && reply.status !== 431) addLimitHeaders(headers, windows);
    headers.push('X-Request-Id', request.requestId, 'X-Content-Type-Options', 'nosniff');
    const bytes = Buffer.byteLength(reply.body);
    if (reply.status !== 204 && reply.status !== 304) headers.push('Content-Length', String(bytes));
    const { complete } = message;
    // HTTP/1.0 has no transfer codings: https://www.rfc-editor.org/rfc/rfc9112#section-6.1
    const isFaulty = message.httpVersion === '1.0' && message.headers['transfer-encoding'] !== undefined;
    if (isDraining() || !complete || isFaulty) headers.push('Connection', 'close');
    addHeaders(headers, cors.headers(request));
    addHeaders(headers, reply.headers);
    response.writeHead(reply.status, STATUS_TEXTS[reply.status], headers);
    if (complete) connections.send(response, reply.body, bytes);
    else void connections.sendEarly(response, reply.body, bytes);
  }

  const serve = (message: IncomingMessage, response: ServerResponse): void => void receive(message, response);
  const server = createServer(
    {
      maxHeaderSize: MAX_HEAD_BYTES,
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: 65_000,
      connectionsCheckingInterval: 1_000,
      // `requireValidHead` checks this, so that the refusal has an Error body.
      requireHostHeader: false,
    },
    serve,
  );
  // The body reader sends "100 Continue". Other expectations may be ignored:
  // https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1
  server.on('checkContinue', serve).on('checkExpectation', serve);
  // One more than `requireValidHead` allows. Otherwise Node keeps up to a thousand of an unfinished head.
  server.maxHeadersCount = MAX_HEADERS + 1;
  server.on('connection', (socket) => connections.open(socket));
  server.on('clientError', (error, socket) => void connections.refuse(error, socket));
  return {
    server,
    inFlight: connections.inFlight,
    /** Holds the requests that arrive from now on, until a promise is fulfilled. */
    holdUntil: (promise: Promise<void>): unknown => (held = promise),
  };
}

/** The statuses whose texts Node does not know. */
const STATUS_TEXTS: Readonly<Record<number, string>> = { 294: 'Partial Success' };

function addHeaders(list: string[], headers: Readonly<Record<string, string>>): void {
  for (const name in headers) list.push(name, headers[name] as string);
}

/** How long all failures of one code share one line, in milliseconds. */
const FAILURES_SHARE_MS = 1_000;

/**
 * Logs 5xx errors, except those of clients that have left: each internal error, and for each other code one line a
 * second with the number of requests, because in an outage every request fails for the same reason.
 */
function createFailureLog(log: Log) {
  /** When each code had its last line, and how many requests have failed since. */
  const lines = new Map<ErrorName, { readonly at: number; requests: number }>();

  return (errors: readonly StoreError[] = [], { requestId, isCancelled }: HttpRequest): void => {
    const failures = isCancelled ? [] : errors.filter(({ status }) => status >= 500);
    const error = failures.find(({ code }) => code === 'internal_error') ?? failures[0];
    if (!error) return;
    const { code, cause, details, message } = error;
    if (code === 'internal_error') {
      log.error({ requestId, code, err: cause }, message);
      return;
    }
    const last = lines.get(code) ?? { at: -Infinity, requests: 0 };
    last.requests += 1;
    const now = performance.now();
    if (now - last.at < FAILURES_SHARE_MS) return;
    lines.set(code, { at: now, requests: 0 });
    const reason = cause instanceof Error ? cause.message : undefined;
    // Only the client may see the upstream's message, because it could contain the client's key.
    const text = details.body ? `the upstream answered ${details.body.status}` : message;
    log.warn({ requestId, code, requests: last.requests, cause: reason }, text);
  };
}
