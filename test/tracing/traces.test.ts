import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { takeDatabaseAccess } from '../support/database-access.js';
import { startGateway, type Gateway } from '../support/gateway.js';
import { describeWithRedis, redisUrl } from '../support/redis.js';
import { statementWaits, whileLocked } from '../support/table-lock.js';
import { drawTrace, startTraceCollector, type CollectedSpan, type TraceCollector } from '../support/trace-collector.js';

/** A new trace, as a client would send it. */
function makeTrace(flags = '01'): { traceId: string; spanId: string; traceparent: string } {
  const traceId = randomBytes(16).toString('hex');
  const spanId = randomBytes(8).toString('hex');
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-${flags}` };
}

const SETTINGS = { OTEL_BSP_SCHEDULE_DELAY: '10' };

let collector: TraceCollector;
beforeAll(async () => {
  collector = await startTraceCollector();
});
beforeEach(() => {
  collector.spans.length = 0;
});
afterAll(() => collector.close());

function byName(spans: readonly CollectedSpan[], name: string): CollectedSpan {
  const found = spans.filter((span) => span.name === name);
  expect(found.map(({ name: own }) => own)).toEqual([name]);
  return found[0] as CollectedSpan;
}

/** Waits for the server span, which ends last. Returns all spans of the trace. */
async function traceOf(traceId: string, servers = 1): Promise<readonly CollectedSpan[]> {
  const isOf = (span: CollectedSpan): boolean => span.traceId === traceId;
  const spans = await collector.find(
    `${servers} server spans of ${traceId}`,
    (all) => all.filter((span) => isOf(span) && span.kind === 'server').length >= servers,
  );
  return spans.filter(isOf);
}

/** More than the store has connections to the database, and not so many that it refuses some. */
const CLIENTS = 20;

describe.each(['embedded', 'server'] as const)('the traces of an %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode, { ...SETTINGS, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    ({ key } = await gateway.createKey());
  });
  afterAll(() => gateway.close());

  it('lead from the client through the operation to the SQL statement', async () => {
    const { traceId, spanId, traceparent } = makeTrace();
    const { headers } = await gateway.graphql('query Shelf { pets(limit: 3) { id } pet(id: 1) { id } }', {
      key,
      headers: { traceparent, 'X-Request-Id': 'request-7' },
    });
    const spans = await traceOf(traceId);
    expect(drawTrace(spans, traceId)).toEqual([
      'server POST /graphql',
      '  internal query',
      '    client find-pets',
      '    client list-pets',
    ]);
    const server = byName(spans, 'POST /graphql');
    expect(server).toMatchObject({
      parentSpanId: spanId,
      failed: false,
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/graphql',
        'http.response.status_code': 200,
        'url.path': '/graphql',
        'url.scheme': 'http',
        'server.address': '127.0.0.1',
        'server.port': Number(new URL(gateway.url).port),
        'animal_store.request_id': 'request-7',
      },
      resource: { 'service.name': 'animal-store-gateway', 'service.version': expect.stringMatching(/^\d+\.\d+\.\d+/) },
    });
    expect(byName(spans, 'query').attributes).toEqual({
      'graphql.operation.type': 'query',
      'graphql.operation.name': 'Shelf',
      'animal_store.cost': 2,
      // The animal does not exist.
      'error.type': 'not_found',
    });
    expect(byName(spans, 'list-pets').attributes).toMatchObject({
      'db.system.name': 'postgresql',
      'db.operation.name': 'SELECT',
      'db.query.summary': 'list-pets',
      'db.response.returned_rows': expect.any(Number),
    });
    expect(headers.get('x-request-id')).toBe('request-7');
    expect(gateway.logged.find(({ requestId }) => requestId === 'request-7')).toMatchObject({ trace_id: traceId });
  });

  it('start here, one per request, if the client sends none', async () => {
    await gateway.graphql('{ pets { id } }', { key });
    await gateway.graphql('{ pets { id } }', {
      key,
      headers: { traceparent: `00-${'0'.repeat(32)}-${'0'.repeat(16)}-01` },
    });
    const spans = await collector.find('two', (all) => all.filter(({ kind }) => kind === 'server').length === 2);
    const roots = spans.filter(({ parentSpanId }) => parentSpanId === '');
    expect(roots.map(({ name }) => name)).toEqual(['POST /graphql', 'POST /graphql']);
    expect(new Set(roots.map(({ traceId }) => traceId)).size).toBe(2);
  });

  it('include additions, with and without an idempotency key', async () => {
    const { traceId, traceparent } = makeTrace();
    await gateway.graphql('mutation { a: addPet(input: { name: "Rex", categoryId: 1 }) { id } }', {
      key,
      headers: { traceparent },
    });
    expect(drawTrace(await traceOf(traceId), traceId)).toEqual([
      'server POST /graphql',
      '  internal mutation',
      '    client add-pet',
    ]);
    const second = makeTrace();
    await gateway.graphql('mutation { a: addPet(input: { name: "Rex", categoryId: 1 }) { id } }', {
      key,
      headers: { traceparent: second.traceparent, 'Idempotency-Key': 'once' },
    });
    const statement = byName(await traceOf(second.traceId), 'add-pet-once');
    expect(statement.attributes['db.operation.name']).toBe('INSERT');
  });

  it('have a span for each operation of a batch, and shared statements as siblings', async () => {
    const { traceId, traceparent } = makeTrace();
    await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', traceparent },
      body: JSON.stringify([
        { query: '{ pet(id: 1) { id } }' },
        { query: '{ pet(id: 2) { id } }' },
        { query: 'mutation { addPet(input: { name: "A", categoryId: 1 }) { id } }' },
      ]),
    });
    expect(drawTrace(await traceOf(traceId), traceId)).toEqual([
      'server POST /graphql',
      '  client find-pets',
      '  internal mutation',
      '    client add-pet',
      '  internal query',
      '  internal query',
    ]);
  });

  it('include REST requests', async () => {
    const [list, lookup, absent] = [makeTrace(), makeTrace(), makeTrace()];
    const get = async (path: string, { traceparent }: { traceparent: string }): Promise<void> => {
      await (await gateway.fetch(path, { headers: { Authorization: `Bearer ${key}`, traceparent } })).text();
    };
    await get('/v1/pets?limit=1&status=sold', list);
    await get('/v1/pets/999999', lookup);
    await get('/nowhere', absent);
    expect(drawTrace(await traceOf(list.traceId), list.traceId)).toEqual([
      'server GET /v1/pets',
      '  client list-pets-by-status',
    ]);
    const spans = await traceOf(lookup.traceId);
    expect(drawTrace(spans, lookup.traceId)).toEqual(['server GET /v1/pets/{petId}', '  client find-pets']);
    expect(byName(spans, 'GET /v1/pets/{petId}')).toMatchObject({
      failed: false,
      attributes: { 'http.response.status_code': 404, 'url.path': '/v1/pets/999999', 'http.route': '/v1/pets/{petId}' },
    });
    const nowhere = byName(await traceOf(absent.traceId), 'GET');
    expect(nowhere.attributes).not.toHaveProperty('http.route');
  });

  it('show a statement that serves several requests in one trace, with links to the others', async () => {
    const traces = Array.from({ length: CLIENTS }, () => makeTrace());
    const ask = () =>
      traces.map(({ traceparent }) => gateway.graphql('{ pets(limit: 7) { id } }', { key, headers: { traceparent } }));
    if (mode === 'server') {
      const access = await takeDatabaseAccess(gateway);
      const answers = await whileLocked(access.url, async () => {
        const asked = ask();
        await statementWaits(access.url);
        // The requests that still arrive are collected.
        await sleep(500);
        return asked;
      });
      await Promise.all(answers);
      await access.close();
    } else await Promise.all(ask());
    const own = new Set(traces.map(({ traceId }) => traceId));
    const spans = (
      await collector.find('all', (all) => all.filter(({ kind }) => kind === 'server').length === CLIENTS)
    ).filter(({ traceId }) => own.has(traceId));
    const operations = spans.filter(({ kind }) => kind === 'internal');
    const statements = spans.filter(({ name }) => name === 'list-pets');
    // The embedded store answers each request before the next one arrives.
    if (mode === 'server') expect(statements.length).toBeLessThan(CLIENTS);
    const served = statements.flatMap(({ parentSpanId, links }) => [parentSpanId, ...links]);
    expect(served.sort()).toEqual(operations.map(({ spanId }) => spanId).sort());
  });

  it('record a failure by its code only', async () => {
    const { traceId, traceparent } = makeTrace();
    await gateway.graphql('{ pets(limit: 500) { id } }', { key, headers: { traceparent } });
    expect(byName(await traceOf(traceId), 'query')).toMatchObject({
      failed: true,
      attributes: { 'error.type': 'invalid_request', 'animal_store.cost': 0 },
    });
    const invalid = makeTrace();
    await gateway.graphql('{ nonsense }', { key, headers: { traceparent: invalid.traceparent } });
    const spans = await traceOf(invalid.traceId);
    expect(byName(spans, 'GraphQL Operation')).toMatchObject({
      failed: true,
      attributes: { 'error.type': 'request_error' },
    });
    expect(byName(spans, 'POST /graphql')).toMatchObject({
      failed: false,
      attributes: { 'http.response.status_code': 422 },
    });
  });

  it('leave out requests that the client does not record, and health probes', async () => {
    const unrecorded = makeTrace('00');
    await gateway.graphql('{ pets { id } }', { key, headers: { traceparent: unrecorded.traceparent } });
    await (await gateway.fetch('/readyz')).text();
    await (await gateway.fetch('/metrics')).text();
    const { traceId, traceparent } = makeTrace();
    await gateway.graphql('{ pets { id } }', { key, headers: { traceparent } });
    await traceOf(traceId);
    expect(new Set(collector.spans.map((span) => span.traceId))).toEqual(new Set([traceId]));
    const line = gateway.logged.filter(({ msg }) => msg === 'request').at(-2);
    expect(line).toMatchObject({ trace_id: unrecorded.traceId });
  });
});

describe.each([
  ['false', 0],
  ['true', 20],
])("a client's decision to record with TRUST_TRACEPARENT=%s", (trust, recorded) => {
  it(`records ${recorded} of 20 requests with a sampler that records none`, async () => {
    const gateway = await startGateway('server', {
      ...SETTINGS,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.000001',
      TRUST_TRACEPARENT: trust,
    });
    // A ratio sampler records a trace whose id is a small number.
    for (let i = 0; i < 20; i++) {
      const traceparent = `00-${String(i + 1).padStart(32, '0')}-${'1'.repeat(16)}-01`;
      await gateway.graphql('{ __typename }', { headers: { traceparent } });
    }
    await gateway.close();
    expect(collector.spans.filter(({ kind }) => kind === 'server')).toHaveLength(recorded);
    expect(gateway.logged.filter(({ trace_id }) => String(trace_id).startsWith('0000'))).toHaveLength(20);
  });
});

describeWithRedis('the traces of instances that share limits', () => {
  it.each(['server', 'proxy'] as const)('include the calls to Redis, %s', async (mode) => {
    const env = { ...SETTINGS, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, REDIS_URL: redisUrl() };
    const gateway = await startGateway(mode, env);
    try {
      const { key } = await gateway.createKey();
      const { traceId, traceparent } = makeTrace();
      await gateway.graphql('{ pets { id } }', { key, headers: { traceparent } });
      const spans = await traceOf(traceId, mode === 'proxy' ? 2 : 1);
      expect(drawTrace(spans, traceId)).toEqual(
        mode === 'server'
          ? ['server POST /graphql', '  client admit', '  internal query', '    client list-pets']
          : [
              'server POST /graphql',
              '  client cool-down',
              '  internal query',
              '    client GET /v1/pets',
              '      server GET /v1/pets',
              '        client admit',
              '        client list-pets',
            ],
      );
      expect(byName(spans, 'admit')).toMatchObject({
        failed: false,
        attributes: { 'db.system.name': 'redis', 'db.operation.name': 'EVALSHA', 'db.query.summary': 'admit' },
      });
    } finally {
      await gateway.close();
    }
  });
});

describe('the traces of a gateway in front of a store', () => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway('proxy', { ...SETTINGS, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    ({ key } = await gateway.createKey());
  });
  afterAll(() => gateway.close());

  it('include the spans of the store', async () => {
    const { traceId, spanId, traceparent } = makeTrace();
    await gateway.graphql('query Both { pets(limit: 3) { id } a: pet(id: 1) { id } }', {
      key,
      headers: { traceparent, tracestate: 'vendor=1', 'X-Request-Id': 'request-8' },
    });
    const spans = await traceOf(traceId, 3);
    expect(drawTrace(spans, traceId)).toEqual([
      'server POST /graphql',
      '  internal query',
      '    client GET /v1/pets',
      '      server GET /v1/pets',
      '        client list-pets',
      '    client GET /v1/pets/{petId}',
      '      server GET /v1/pets/{petId}',
      '        client find-pets',
    ]);
    expect(byName(spans, 'POST /graphql').parentSpanId).toBe(spanId);
    const upstream = new URL(gateway.upstream?.url ?? '');
    const lookup = spans.find(({ name, kind }) => name === 'GET /v1/pets/{petId}' && kind === 'client');
    expect(lookup).toMatchObject({
      failed: true,
      attributes: {
        'http.request.method': 'GET',
        'http.response.status_code': 404,
        'error.type': '404',
        'server.address': '127.0.0.1',
        'server.port': Number(upstream.port),
        'url.full': `${upstream.origin}/v1/pets/1`,
        'url.template': '/v1/pets/{petId}',
      },
    });
    const servers = spans.filter(({ kind }) => kind === 'server');
    for (const { attributes, traceState } of servers) {
      expect(attributes['animal_store.request_id']).toMatch(/^request-8/);
      expect(traceState).toBe('vendor=1');
    }
    const services = new Set(spans.map(({ resource }) => resource['service.instance.id']));
    expect(services.size).toBe(2);
  });

  it('pass the decision not to record to the store', async () => {
    const { traceparent } = makeTrace('00');
    await gateway.graphql('{ pets { id } }', { key, headers: { traceparent } });
    const { traceId, traceparent: recorded } = makeTrace();
    await gateway.graphql('{ pets { id } }', { key, headers: { traceparent: recorded } });
    await traceOf(traceId, 2);
    expect(new Set(collector.spans.map((span) => span.traceId))).toEqual(new Set([traceId]));
  });

  it('show a GET that serves several requests of a key in one trace, with links to the others', async () => {
    const traces = Array.from({ length: 6 }, () => makeTrace());
    await Promise.all(
      traces.map(({ traceparent }) => gateway.graphql('{ pets(limit: 9) { id } }', { key, headers: { traceparent } })),
    );
    const own = new Set(traces.map(({ traceId }) => traceId));
    await collector.find('six', (all) => all.filter(({ name }) => name === 'POST /graphql').length === 6);
    const spans = collector.spans.filter(({ traceId }) => own.has(traceId));
    const operations = spans.filter(({ kind }) => kind === 'internal');
    const asked = spans.filter(({ name, kind }) => name === 'GET /v1/pets' && kind === 'client');
    const served = asked.flatMap(({ parentSpanId, links }) => [parentSpanId, ...links]);
    expect(served.sort()).toEqual(operations.map(({ spanId }) => spanId).sort());
  });
});
