import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { until } from './process.js';

type Attributes = Record<string, unknown>;

/** A span that the collector received. */
export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the root of a trace. */
  readonly parentSpanId: string;
  readonly name: string;
  readonly kind: 'internal' | 'server' | 'client';
  readonly attributes: Attributes;
  /** The ids of the linked spans. */
  readonly links: readonly string[];
  readonly traceState: string | undefined;
  readonly failed: boolean;
  readonly milliseconds: number;
  /** The resource that reports the span. */
  readonly resource: Attributes;
}

/** A collector of OTLP over HTTP on a real socket. It records what it receives. */
export interface TraceCollector {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly url: string;
  readonly spans: CollectedSpan[];
  /** Every request so far. */
  readonly received: { readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: string }[];
  /** Sets the status of the next responses, or stops responding. */
  answer(status: number | 'silence'): void;
  /** Waits until the spans meet a condition, and returns them. */
  find(what: string, isThere: (spans: readonly CollectedSpan[]) => boolean): Promise<readonly CollectedSpan[]>;
  close(): Promise<void>;
}

export async function startTraceCollector(port = 0): Promise<TraceCollector> {
  const spans: CollectedSpan[] = [];
  const received: TraceCollector['received'] = [];
  const sockets = new Set<Socket>();
  let status: number | 'silence' = 200;
  const server = createServer((request, response) => void receive(request, response));
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((ready) => server.listen(port, '127.0.0.1', ready));

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    received.push({ path: request.url ?? '', headers: request.headers, body });
    if (status === 'silence') return;
    if (status === 200) spans.push(...decode(body));
    response.writeHead(status, { 'Content-Type': 'application/json' }).end('{}');
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    received,
    answer: (next) => (status = next),
    async find(what, isThere) {
      await until(`the collector has ${what}`, () => isThere(spans), 10_000).catch((error: unknown) => {
        throw new Error(`${String(error)}; it has ${JSON.stringify(spans.map(({ name }) => name))}`);
      });
      return spans;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((closed) => server.close(() => closed()));
    },
  };
}

/** The parts of a request that the collector reads: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding */
interface ExportRequest {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly SentSpan[] }[];
  }[];
}

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

interface SentSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly traceState?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly Attribute[];
  readonly links?: readonly { readonly spanId: string }[];
  readonly status?: { readonly code?: number };
}

const KINDS: Readonly<Record<number, CollectedSpan['kind']>> = { 1: 'internal', 2: 'server', 3: 'client' };
const ERROR = 2;

function decode(body: string): CollectedSpan[] {
  const { resourceSpans } = JSON.parse(body) as ExportRequest;
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId ?? '',
        name: span.name,
        kind: KINDS[span.kind] as CollectedSpan['kind'],
        attributes: toAttributes(span.attributes),
        links: (span.links ?? []).map(({ spanId }) => spanId),
        traceState: span.traceState,
        failed: span.status?.code === ERROR,
        milliseconds: Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e6,
        resource: toAttributes(resource.attributes),
      })),
    ),
  );
}

function toAttributes(list: readonly Attribute[]): Attributes {
  return Object.fromEntries(
    list.map(({ key, value }) => {
      const [plain] = Object.values(value);
      if (plain === undefined) throw new Error(`the attribute ${key} has no value`);
      return [key, plain];
    }),
  );
}

/** Lists the spans of one trace, indented under their parents and sorted by name. */
export function drawTrace(spans: readonly CollectedSpan[], traceId: string): string[] {
  const trace = spans.filter((span) => span.traceId === traceId);
  const ids = new Set(trace.map(({ spanId }) => spanId));
  const draw = (children: readonly CollectedSpan[], indent: string): string[] =>
    [...children]
      .sort((a, b) => a.name.localeCompare(b.name))
      .flatMap(({ spanId, kind, name }) => [
        `${indent}${kind} ${name}`,
        ...draw(
          trace.filter(({ parentSpanId }) => parentSpanId === spanId),
          `${indent}  `,
        ),
      ]);
  return draw(
    trace.filter(({ parentSpanId }) => !ids.has(parentSpanId)),
    '',
  );
}
