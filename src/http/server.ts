import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { toStoreError, type StoreError } from '../errors.js';
import { createRequestLog, type Log } from '../observability/log.js';
import { CLIENT_GONE, type Metrics } from '../observability/metrics.js';
import { drainBody, isDrainable } from './body.js';
import { createConnections, type ConnectionLimits } from './connections.js';
import type { Cors } from './cors.js';
import { addLimitHeaders, toErrorReply } from './reply.js';
import { represent } from './representation.js';
import { readAddress, RequestContext, toPrefix, type Reply } from './request-context.js';

/** Answers one request. A thrown StoreError becomes an Error body, and any other error a plain 500. */
export type Handler = (context: RequestContext) => Promise<Reply> | Reply;

export interface HttpServerOptions extends ConnectionLimits {
  readonly handler: Handler;
  readonly cors: Cors;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly trustProxy: boolean;
  /** How much of a client's address the log has. */
  readonly logAddress: keyof typeof LOGGED_ADDRESSES;
  /** True once the server is closing. Responses then ask clients to close their connections. */
  readonly isDraining: () => boolean;
}

export type HttpServer = ReturnType<typeof createHttpServer>;

const LOGGED_ADDRESSES = {
  full: (address: string) => address,
  network: toPrefix,
  none: () => undefined,
};

/** Further connections are closed at once, because each costs memory and a file descriptor. */
const MAX_CONNECTIONS = 10_000;
/** A client that has not sent its request after this long is disconnected, up to a second later. */
const REQUEST_TIMEOUT_MS = 13_000;

/** Creates the HTTP server: request ids, CORS, slow clients, one log line and one measurement for each request. */
export function createHttpServer(options: HttpServerOptions) {
  const { handler, cors, log, metrics, trustProxy, isDraining } = options;
  const toLoggedAddress = LOGGED_ADDRESSES[options.logAddress];
  const writeLogLine = createRequestLog(log);
  const connections = createConnections(options);
  let inFlight = 0;
  let held: Promise<void> | undefined;

  function receive(request: IncomingMessage, response: ServerResponse): void {
    connections.serve(request, response, begin);
  }

  function begin(request: IncomingMessage, response: ServerResponse): void {
    const context = new RequestContext(request, response, readAddress(request, trustProxy));
    inFlight += 1;
    response.on('close', () => {
      inFlight -= 1;
      finish(context);
    });
    void serve(context);
  }

  async function serve(context: RequestContext): Promise<void> {
    let reply: Reply;
    try {
      if (held) await held;
      reply = represent(context, await handler(context));
    } catch (thrown) {
      const error = toStoreError(thrown);
      logFailures(log, [error], context);
      reply = toErrorReply(error);
    }
    if (!context.response.destroyed) send(context, reply);
  }

  function send(context: RequestContext, reply: Reply): void {
    const { request, response } = context;
    // Names and values alternately. Node writes such a list directly, but iterates over an object more than once.
    const headers: string[] = [];
    if (reply.windows && reply.status !== 431) addLimitHeaders(headers, reply.windows);
    headers.push('X-Request-Id', context.requestId, 'X-Content-Type-Options', 'nosniff');
    const bytes = Buffer.byteLength(reply.body);
    if (reply.status !== 204 && reply.status !== 304) headers.push('Content-Length', String(bytes));
    const isEarly = !request.complete;
    const isLast = isDraining() || (isEarly && !isDrainable(request));
    if (isLast) headers.push('Connection', 'close');
    if (isLast || reply.headers.Connection) connections.end(request);
    addHeaders(headers, cors.headers(context));
    addHeaders(headers, reply.headers);
    response.writeHead(reply.status, STATUS_TEXTS[reply.status], headers);
    // ASCII is the same in both encodings, and Node writes Latin-1 without conversion.
    const encoding = bytes === reply.body.length ? 'latin1' : 'utf8';
    if (isEarly && reply.status >= 400) {
      // Node may close the connection when the response ends, so it ends when the client has had time to read it.
      response.flushHeaders();
      response.write(reply.body, encoding);
      context.isAnsweredEarly = true;
      void closeUnlessComplete(request, () => response.end());
      return;
    }
    connections.send(response, reply.body, encoding);
    if (isEarly) void closeUnlessComplete(request);
  }

  function finish(context: RequestContext): void {
    const { response, method, route, client } = context;
    const ms = performance.now() - context.startedAt;
    const isAnswered = response.writableFinished || context.isAnsweredEarly;
    const status = isAnswered ? response.statusCode : CLIENT_GONE;
    metrics.observeHttp(route, method, status, ms / 1_000);
    writeLogLine(context, toLoggedAddress(client.address), status, ms);
  }

  const server = createServer(
    {
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: REQUEST_TIMEOUT_MS,
      connectionsCheckingInterval: 1_000,
      // `requireUnambiguousHeaders` checks this, so that the refusal has an Error body.
      requireHostHeader: false,
    },
    receive,
  );
  // `readJsonBody` sends "100 Continue".
  server.on('checkContinue', receive);
  // A server may ignore other expectations: https://www.rfc-editor.org/rfc/rfc9110#section-10.1.1
  server.on('checkExpectation', receive);
  server.keepAliveTimeout = 65_000;
  server.maxConnections = MAX_CONNECTIONS;
  server.on('clientError', (error, socket) => connections.refuse(error, socket));
  return {
    server,
    inFlight: (): number => inFlight,
    /** Holds the requests that arrive from now on, until the function that it returns is called. */
    hold: (): (() => void) => {
      let release: () => void;
      held = new Promise((resolve) => (release = resolve));
      return () => release();
    },
  };
}

async function closeUnlessComplete(request: IncomingMessage, onDrained?: () => void): Promise<void> {
  const isComplete = await drainBody(request);
  onDrained?.();
  if (!isComplete) request.socket.destroySoon();
}

/** The statuses whose texts Node does not know. */
const STATUS_TEXTS: Readonly<Record<number, string>> = { 294: 'Partial Success' };

function addHeaders(list: string[], headers: Readonly<Record<string, string>>): void {
  for (const name in headers) list.push(name, headers[name] as string);
}

/** Logs the 5xx errors of a request in one line. What fails because the client has disconnected is no such error. */
export function logFailures(log: Log, errors: readonly StoreError[], { requestId, isCancelled }: RequestContext): void {
  if (isCancelled) return;
  const failures = errors.filter(({ status }) => status >= 500);
  const error = failures.find(({ code }) => code === 'internal_error') ?? failures[0];
  if (!error) return;
  const cause = error.cause instanceof Error ? error.cause : undefined;
  // Only the client may see the upstream's message, because it could contain the client's key.
  const message = error.body ? `the upstream answered ${error.body.status}` : error.message;
  const count = failures.length > 1 ? { failures: failures.length } : undefined;
  log[error.code === 'internal_error' ? 'error' : 'warn'](
    { requestId, code: error.code, ...count, err: cause },
    message,
  );
}
