import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { createRequestLog, type RequestFields, type RequestLine } from '../../src/observability/request-log.js';

function createLog(level: string) {
  const lines: Record<string, unknown>[] = [];
  const redact = ['key', 'authorization'];
  const log = pino(
    { level, base: undefined, redact },
    { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
  );
  return { write: createRequestLog(log), lines };
}

const FURTHER: RequestFields = { keyId: 'key_abc', cost: 2, operations: 'Pets,query' };
const LINE: RequestLine = {
  requestId: '0190f4a2-58cb-4df3-9b52-7b1e7ef0a001',
  method: 'POST',
  path: '/graphql',
  address: '203.0.113.7',
  status: 200,
  ms: 1.25,
  further: FURTHER,
};

describe('the log line of a request', () => {
  it.each<Partial<RequestLine>>([
    {},
    { method: 'GET', path: '/v1/pets/"quoted"\\\u0007\u2028ハチ' },
    { status: 401, further: {} },
    { status: 499, ms: 0 },
    { ms: 12_345.5 },
    { further: { operations: 'a"b\n' } },
    { further: { ...FURTHER, deprecated: true, client: 'shop "1"', trace_id: '4bf92f3577b34da6a3ce929d0e0e4736' } },
  ])('contains only the fields of the request: %j', (changes) => {
    const { write, lines } = createLog('info');
    const { further, ...fields } = { ...LINE, ...changes };
    write('info', { ...fields, further });
    expect(lines).toEqual([{ level: 30, time: expect.any(Number), ...fields, ...further, msg: 'request' }]);
  });

  it('rounds the duration to a hundredth of a millisecond', () => {
    const { write, lines } = createLog('info');
    for (const ms of [0.996, 9.004, 1.23456]) write('info', { ...LINE, ms });
    expect(lines.map(({ ms }) => ms)).toEqual([1, 9, 1.23]);
  });

  it.each([
    ['debug', 2],
    ['info', 1],
    ['warn', 0],
    ['silent', 0],
  ])('is written or not, depending on the level %s', (level, count) => {
    const { write, lines } = createLog(level);
    write('info', LINE);
    write('debug', LINE);
    expect(lines).toHaveLength(count);
  });
});
