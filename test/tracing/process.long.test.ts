import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { linesOf, makePlace, type Place, type Program } from '../support/process.js';
import { startTraceCollector, type TraceCollector } from '../support/trace-collector.js';

describe('tracing in a separate process', () => {
  let place: Place;
  let collector: TraceCollector;
  let program: Program | undefined;

  beforeAll(async () => {
    place = await makePlace();
    await place.prepareStore();
    collector = await startTraceCollector();
  });
  afterEach(async () => {
    await program?.stop();
    program = undefined;
    collector.received.length = 0;
    collector.spans.length = 0;
  });
  afterAll(async () => {
    await place.close();
    await collector.close();
  });

  async function start(env: Record<string, string>): Promise<Program> {
    return (program = await place.start({ PORT: '0', ...env }));
  }

  async function ask(): Promise<void> {
    const { free } = await place.developmentKeys();
    expect(await program?.graphql('{ pets { id } }', free)).toHaveProperty('data');
  }

  /** The modules that Node has loaded after one request. */
  async function loadedBy(env: Record<string, string>): Promise<string[]> {
    const list = join(place.directory, 'loaded');
    await writeFile(list, '');
    const hooks = `import { appendFileSync } from 'node:fs';
      export async function resolve(specifier, context, next) {
        const resolved = await next(specifier, context);
        appendFileSync(${JSON.stringify(list)}, resolved.url + '\\n');
        return resolved;
      }`;
    const register = `import { register } from 'node:module';
      register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}));`;
    const file = join(place.directory, 'register.mjs');
    await writeFile(file, register);
    await start({ ...env, NODE_OPTIONS: `--import=${pathToFileURL(file).href}` });
    await ask();
    await program?.stop();
    return linesOf(await readFile(list, 'utf8'));
  }

  /** The files of the program that contain the exporter. */
  async function partsThatTrace(urls: readonly string[]): Promise<string[]> {
    const parts = urls.filter((url) => url.includes('/dist/bundle/'));
    const texts = await Promise.all(parts.map((url) => readFile(new URL(url), 'utf8')));
    return parts.filter((_, index) => texts[index]?.includes('OTLPTraceExporter'));
  }

  it('is not loaded without OTEL_EXPORTER_OTLP_ENDPOINT', async () => {
    const off = await loadedBy({ OTEL_SERVICE_NAME: 'shop', OTEL_TRACES_SAMPLER: 'of somebody else' });
    expect(off.some((url) => url.endsWith('/dist/bundle/main.js'))).toBe(true);
    expect(await partsThatTrace(off)).toEqual([]);
    const on = await loadedBy({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    expect(await partsThatTrace(on)).toEqual([expect.stringMatching(/\/otlp-tracing-\w+\.js$/)]);
    for (const [name, value] of [
      ['OTEL_SDK_DISABLED', 'true'],
      ['OTEL_TRACES_EXPORTER', 'none'],
    ] as const) {
      const disabled = await loadedBy({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, [name]: value });
      expect(await partsThatTrace(disabled)).toEqual([]);
    }
  });

  it('exports the remaining spans at shutdown', async () => {
    await start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: '3600000' });
    await ask();
    expect(collector.spans).toEqual([]);
    expect((await program?.stop())?.code).toBe(0);
    expect(collector.spans.map(({ name }) => name).sort()).toEqual(['POST /graphql', 'list-pets', 'query']);
  });

  it('does not delay shutdown if the collector does not respond', async () => {
    collector.answer('silence');
    await start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, SHUTDOWN_GRACE_MS: '1000' });
    await ask();
    const startedAt = performance.now();
    expect((await program?.stop())?.code).toBe(0);
    collector.answer(200);
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    expect(collector.received).toHaveLength(1);
  });

  it('takes the resource, endpoint and headers from the environment', async () => {
    await start({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/elsewhere`,
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
      OTEL_EXPORTER_OTLP_HEADERS: 'x-token=of%20the%20collector',
      OTEL_SERVICE_NAME: 'shop',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=staging,service.name=not this one',
    });
    await ask();
    await program?.stop();
    expect(collector.received).toMatchObject([
      { path: '/elsewhere', headers: { 'x-token': 'of the collector', 'content-type': 'application/json' } },
    ]);
    expect(collector.spans[0]?.resource).toMatchObject({
      'service.name': 'shop',
      'deployment.environment.name': 'staging',
    });
  });

  it('reads the same settings from .env in development', async () => {
    const file = join(place.directory, '.env');
    await appendFile(file, `OTEL_EXPORTER_OTLP_ENDPOINT=${collector.url}/\nOTEL_SERVICE_NAME=from-file\n`);
    await start({});
    await ask();
    await program?.stop();
    await writeFile(file, '');
    expect(collector.received.map(({ path }) => path)).toEqual(['/v1/traces']);
    expect(collector.spans[0]?.resource['service.name']).toBe('from-file');
  });

  it('samples according to OTEL_TRACES_SAMPLER', async () => {
    await start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_TRACES_SAMPLER: 'always_off' });
    await ask();
    await program?.stop();
    expect(collector.received).toEqual([]);
  });

  it.each([
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'localhost:4318'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'grpc://me:geheim@localhost:4317'],
    ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'nowhere'],
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc'],
    ['OTEL_TRACES_SAMPLER', 'sometimes'],
    ['OTEL_TRACES_SAMPLER_ARG', '2'],
    ['OTEL_BSP_MAX_QUEUE_SIZE', '-1'],
  ])('refuses to start, with one line, for an invalid setting: %s=%s', async (name, value) => {
    const env = { PORT: '0', OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, [name]: value };
    const { code, stdout, stderr } = await place.run(env);
    expect({ code, stdout, lines: linesOf(stderr).length }).toEqual({ code: 1, stdout: '', lines: 1 });
    expect(stderr).toMatch(new RegExp(`\\b${name} must be `));
    expect(stderr).not.toContain('geheim');
  });
});
