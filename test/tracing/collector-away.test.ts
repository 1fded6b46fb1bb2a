import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { findFreePort } from '../support/free-port.js';
import { startGateway, startProxyBefore, type Gateway } from '../support/gateway.js';
import { until } from '../support/process.js';
import { startScriptedUpstream } from '../support/scripted-upstream.js';
import { startTraceCollector, type TraceCollector } from '../support/trace-collector.js';

const LOST = 'the trace collector does not take spans: they are lost';
const SETTINGS = { OTEL_BSP_SCHEDULE_DELAY: '10', OTEL_BSP_MAX_QUEUE_SIZE: '64' };

/** Sends requests that succeed. Returns the longest duration in milliseconds. */
async function ask(gateway: Gateway, key: string, count: number): Promise<number> {
  const times = await Promise.all(
    Array.from({ length: count }, async () => {
      const startedAt = performance.now();
      const { status } = await gateway.graphql('{ pets { id } }', { key });
      expect(status).toBe(200);
      return performance.now() - startedAt;
    }),
  );
  return Math.max(...times);
}

function count(gateway: Gateway, message: string): number {
  return gateway.logged.filter(({ msg }) => msg === message).length;
}

describe('a collector that refuses spans', () => {
  let collector: TraceCollector;
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    collector = await startTraceCollector();
    gateway = await startGateway('server', { ...SETTINGS, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    ({ key } = await gateway.createKey());
  });
  beforeEach(() => {
    gateway.logged.length = 0;
  });
  afterAll(async () => {
    await gateway.close();
    await collector.close();
  });

  it('is logged once with the reason, and gets spans again when it recovers', async () => {
    collector.answer(403);
    for (let round = 0; round < 5; round++) {
      const before = collector.received.length;
      await ask(gateway, key, 10);
      await until('the collector has refused more', () => collector.received.length > before);
    }
    await until('the warning is logged', () => count(gateway, LOST) > 0);
    expect(gateway.logged.find(({ msg }) => msg === LOST)).toMatchObject({
      level: 40,
      reason: '403 Forbidden',
    });
    collector.answer(200);
    await ask(gateway, key, 1);
    await collector.find('a request', (all) => all.some(({ kind }) => kind === 'server'));
    expect(count(gateway, LOST)).toBe(1);
  });
});

describe('a collector that does not respond', () => {
  it('does not affect requests, does not exceed the queue, and does not delay shutdown', async () => {
    const collector = await startTraceCollector();
    collector.answer('silence');
    const gateway = await startGateway('server', { ...SETTINGS, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    const { key } = await gateway.createKey();
    expect(await ask(gateway, key, 30)).toBeLessThan(5_000);
    await until('an export waits', () => collector.received.length > 0);
    expect(await ask(gateway, key, 30)).toBeLessThan(5_000);
    // The collector has one batch, the queue is full, and the other spans are dropped.
    expect(collector.received).toHaveLength(1);
    const startedAt = performance.now();
    await gateway.close();
    expect(performance.now() - startedAt).toBeLessThan(8_000);
    expect(count(gateway, 'not all spans could be exported in time')).toBe(1);
    const kept = collector.received.map(({ body }) => body.match(/"name":"POST \/graphql"/g)?.length ?? 0);
    const total = kept.reduce((sum, one) => sum + one, 0);
    expect(total).toBeGreaterThan(0);
    expect(total).toBeLessThanOrEqual(2 * 64);
    await collector.close();
  });
});

describe('a collector that is not running', () => {
  it('does not affect requests, and is logged', async () => {
    vi.stubEnv('OTEL_EXPORTER_OTLP_TIMEOUT', '300');
    const gateway = await startGateway('server', {
      ...SETTINGS,
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await findFreePort()}`,
    });
    const { key } = await gateway.createKey();
    vi.unstubAllEnvs();
    await ask(gateway, key, 20);
    await until('the warning is logged', () => count(gateway, LOST) > 0);
    await gateway.close();
  });
});

describe('a trace that this gateway does not record', () => {
  it('is sent to the upstream with that decision, so that the store does not record it either', async () => {
    const upstream = await startScriptedUpstream();
    const collector = await startTraceCollector();
    const gateway = await startProxyBefore(upstream.url, {
      ...SETTINGS,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0',
      TRUST_TRACEPARENT: 'true',
    });
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    const traceId = gateway.logged.find(({ msg }) => msg === 'request')?.trace_id;
    expect(upstream.seen.map(({ headers }) => headers.traceparent)).toEqual([
      expect.stringMatching(new RegExp(`^00-${String(traceId)}-[0-9a-f]{16}-00$`)),
    ]);
    // If a trusted client records a trace, the gateway does too, whatever the sampling ratio.
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await gateway.graphql('{ pets { id } }', { key: 'a', headers: { traceparent } });
    const spans = await collector.find('a request', (all) => all.some(({ kind }) => kind === 'server'));
    const sent = spans.find(({ kind }) => kind === 'client');
    expect(upstream.seen[1]?.headers.traceparent).toBe(`00-0af7651916cd43dd8448eb211c80319c-${sent?.spanId ?? ''}-01`);
    expect(new Set(spans.map((span) => span.traceId))).toEqual(new Set(['0af7651916cd43dd8448eb211c80319c']));
    await gateway.close();
    await upstream.close();
    await collector.close();
  });
});
