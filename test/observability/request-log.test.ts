import { Writable } from 'node:stream';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { LineBlocks } from '../../src/observability/line-blocks.js';
import { createRequestLog, type RequestLine } from '../../src/observability/request-log.js';

function createLog(level: string) {
  const written: string[] = [];
  const blocks = new LineBlocks({
    write: (block) => written.push(block.toString()),
    flush: () => undefined,
    flushSync: () => undefined,
    on: () => undefined,
  });
  const log = pino({ level, base: undefined }, blocks);
  const lines = (): Record<string, unknown>[] => {
    blocks.flush();
    const text = written.splice(0).join('').trim();
    return text === '' ? [] : text.split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
  };
  return { log, lines };
}

const LINE: RequestLine = {
  requestId: '0190f4a2-58cb-4df3-9b52-7b1e7ef0a001',
  method: 'POST',
  path: '/graphql',
  status: 200,
  ms: 1.25,
  further: { keyId: 'key_abc', cost: 2, operations: 'Pets,query' },
};

describe('the line of a request', () => {
  it.each([
    {},
    { path: '/v1/pets/"quoted"\\\u0007\u2028ハチ\ud800' },
    { further: {} },
    { further: { operations: 'a"b\n' } },
    { status: 499, ms: 0 },
    {
      further: { trace_id: '4bf92f3577b34da6a3ce929d0e0e4736', keyId: 'key_abc', deprecated: true, client: 'shop "1"' },
    },
    { ms: 12_345.5 },
  ])('is what pino would write: %j', (changes) => {
    const { log, lines } = createLog('info');
    const line = { ...LINE, ...changes };
    createRequestLog(log)('info', line);
    const { further, ...fields } = line;
    log.info({ ...fields, ...further }, 'request');
    const [ours, pinos] = lines();
    expect({ ...ours, time: 0 }).toEqual({ ...pinos, time: 0 });
    expect(Object.keys(ours as object)).toEqual(Object.keys(pinos as object));
    expect(Math.abs(Number(ours?.time) - Number(pinos?.time))).toBeLessThan(5_000);
  });

  it('says of each request what it was, whatever was said of the one before', () => {
    const { log, lines } = createLog('debug');
    const write = createRequestLog(log);
    const further = { ...LINE.further };
    const changes: readonly Partial<RequestLine>[] = [
      { requestId: 'another' },
      { method: 'GET' },
      { path: '/v1/pets/ハチ' },
      { status: 401 },
      { ms: 0.996 },
      { ms: 9.004 },
      { further: {} },
      { further: { ...further, keyId: 'key_b' } },
      { further: { ...further, cost: 3 } },
      { further: { ...further, operations: 'pets' } },
      { further: { ...further, deprecated: true } },
      { further: { ...further, client: 'shop' } },
      { further: { ...further, trace_id: '4bf92f3577b34da6a3ce929d0e0e4736' } },
    ];
    const asked = changes.flatMap((change) => [LINE, LINE, { ...LINE, ...change }]);
    for (const line of asked) write('info', line);
    write('debug', { ...LINE, further });
    // What the program holds of a request may change after its line.
    further.cost = 7;
    write('debug', { ...LINE, further });
    const expected = asked.map(({ further: rest, ms, ...fields }) => ({
      level: 30,
      ...fields,
      ms: Number(ms.toFixed(2)),
      ...rest,
    }));
    const said = lines().map(({ time, msg, ...fields }) => {
      expect([typeof time, msg]).toEqual(['number', 'request']);
      return fields;
    });
    expect(said.slice(0, -2)).toEqual(expected);
    expect(said.slice(-2)).toMatchObject([
      { level: 20, cost: 2 },
      { level: 20, cost: 7 },
    ]);
  });

  it.each([
    ['debug', 2],
    ['info', 1],
    ['warn', 0],
    ['silent', 0],
  ])('is there or not, as the level %s says', (level, count) => {
    const { log, lines } = createLog(level);
    const write = createRequestLog(log);
    write('info', LINE);
    write('debug', LINE);
    expect(lines()).toHaveLength(count);
  });

  it('goes through a log that writes elsewhere', () => {
    const texts: string[] = [];
    const stream = new Writable({
      write(chunk: Buffer, _encoding, done) {
        texts.push(chunk.toString());
        done();
      },
    });
    createRequestLog(pino({ level: 'info', base: undefined }, stream))('info', { ...LINE, ms: 1.23456 });
    expect(JSON.parse(texts.join(''))).toMatchObject({ path: '/graphql', ms: 1.23, cost: 2, msg: 'request' });
  });
});
