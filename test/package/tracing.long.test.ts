import { execFile } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePlace, until, type Place } from '../support/process.js';

/** The packages that docs/tracing.md installs, in the newest versions that Node 20.19 can load. */
const PACKAGES = ['@opentelemetry/auto-instrumentations-node@0.81.2', '@opentelemetry/api@1.9.1'];

interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly service: string;
  readonly attributes: Readonly<Record<string, unknown>>;
}

type Attributes = readonly { key: string; value: Readonly<Record<string, unknown>> }[];

interface Traces {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Attributes };
    readonly scopeSpans: readonly {
      readonly spans: readonly (Omit<Span, 'attributes'> & { attributes: Attributes })[];
    }[];
  }[];
}

const toRecord = (attributes: Attributes): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

/** Receives spans as OTLP over HTTP, as a collector does. */
async function startCollector(spans: Span[]): Promise<Server> {
  const collector = createServer((request, response) => {
    void json(request).then((body) => {
      for (const { resource, scopeSpans } of (body as Traces).resourceSpans) {
        const service = String(toRecord(resource.attributes)['service.name']);
        for (const span of scopeSpans.flatMap((scope) => scope.spans))
          spans.push({ ...span, service, attributes: toRecord(span.attributes) });
      }
      response.setHeader('Content-Type', 'application/json').end('{}');
    });
  });
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
  return collector;
}

describe('a gateway and its store, started with the automatic instrumentation of OpenTelemetry', () => {
  const spans: Span[] = [];
  let collector: Server;
  let place: Place;

  beforeAll(async () => {
    collector = await startCollector(spans);
    place = await makePlace();
    const install = ['install', '--no-audit', '--no-fund', '--prefer-offline', ...PACKAGES];
    await promisify(execFile)('npm', install, { cwd: place.directory });
  });
  afterAll(async () => {
    await place.close();
    collector.close();
  });

  it('record one trace with HTTP, the name of the operation, the upstream request and SQL', async () => {
    const trace = (service: string): Record<string, string> => ({
      PORT: '0',
      NODE_OPTIONS:
        '--experimental-loader=@opentelemetry/instrumentation/hook.mjs --import @opentelemetry/auto-instrumentations-node/register',
      OTEL_SERVICE_NAME: service,
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '200',
      OTEL_METRICS_EXPORTER: 'none',
      OTEL_LOGS_EXPORTER: 'none',
      OTEL_NODE_RESOURCE_DETECTORS: 'env',
      OTEL_NODE_ENABLED_INSTRUMENTATIONS: 'http,undici,graphql,pg,ioredis,pino',
    });
    const database = await place.database();
    const { stdout } = await place.keys(['create', '--plan', 'pro', '--json'], { DATABASE_URL: database });
    const { key } = JSON.parse(stdout) as { key: string };
    const store = await place.start({ ...trace('store'), DATABASE_URL: database });
    const gateway = await place.start({ ...trace('gateway'), UPSTREAM_URL: `${store.url}/v1` });
    expect(await gateway.graphql('query Shelf { pets(limit: 2) { id } }', key)).toEqual({ data: { pets: [] } });

    /** The spans from the request to its statement, each the parent of the next. */
    const findPath = (): (Span | undefined)[] => {
      const received = spans.find(({ name }) => name === 'POST /graphql Shelf');
      const inTrace = spans.filter(({ traceId }) => traceId === received?.traceId);
      const findChild = (of: Span | undefined, name: RegExp): Span | undefined =>
        inTrace.find((span) => span.parentSpanId === of?.spanId && name.test(span.name));
      const sent = findChild(received, /^GET$/);
      const served = findChild(sent, /^GET \/v1\/pets$/);
      return [received, sent, served, findChild(served, /^pg\.query:list-pets/)];
    };
    await until('all spans have arrived', () => findPath().every((span) => span !== undefined));
    const [received, sent, served, queried] = findPath() as [Span, Span, Span, Span];
    expect(received.attributes).toMatchObject({ 'http.route': '/graphql', 'graphql.operation.name': 'Shelf' });
    expect(served.attributes).toMatchObject({ 'http.route': '/v1/pets' });
    expect([received, sent, served, queried].map(({ service }) => service)).toEqual([
      'gateway',
      'gateway',
      'store',
      'store',
    ]);
    expect(JSON.stringify(spans)).not.toContain(key);
    await gateway.stop();
    await store.stop();
  });
});
