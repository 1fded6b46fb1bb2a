import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import type { LoggedFields } from '../../src/http/reply.js';
import type { HttpRequest } from '../../src/http/request.js';
import { createRequestLog } from '../../src/observability/log.js';

function createLog(level: string) {
  const lines: Record<string, unknown>[] = [];
  const log = pino(
    { level, base: undefined },
    { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
  );
  return { log: createRequestLog(log), lines };
}

const FURTHER = { cost: 2, operations: 'Pets,query' };
const LINE = {
  requestId: '0190f4a2-58cb-4df3-9b52-7b1e7ef0a001',
  method: 'POST',
  path: '/graphql',
  address: '203.0.113.7',
  status: 200,
  ms: 1.25,
  keyId: 'key_abc' as string | undefined,
  further: FURTHER as LoggedFields,
};

function write(
  log: ReturnType<typeof createRequestLog>,
  { requestId, method, path, address, status, ms, keyId, further } = LINE,
  route = path,
): void {
  const request = { requestId, method, path, client: { address, network: address }, redact: (text: string) => text };
  const reply = { status, headers: {}, body: '', logged: further };
  log(request as unknown as HttpRequest, { reply, route, keyId }, status, ms);
}

describe('the log line of a request', () => {
  it.each<Partial<typeof LINE>>([
    {},
    { method: 'GET', path: '/v1/pets/"quoted"\\\u0007\u2028ハチ' },
    { status: 401, keyId: undefined, further: {} },
    { status: 499, ms: 0 },
    { ms: 12_345.5 },
    { further: { operations: 'a"b\n' } },
    { further: { ...FURTHER, deprecated: true, client: 'shop "1"' } },
  ])('contains only the fields of the request: %j', (changes) => {
    const { log, lines } = createLog('info');
    const { further, ...fields } = { ...LINE, ...changes };
    write(log, { ...fields, further });
    expect(lines).toEqual([{ level: 30, time: expect.any(Number), ...fields, ...further, msg: 'request' }]);
  });

  it('rounds the duration to a hundredth of a millisecond', () => {
    const { log, lines } = createLog('info');
    for (const ms of [0.996, 9.004, 1.23456]) write(log, { ...LINE, ms });
    expect(lines.map(({ ms }) => ms)).toEqual([1, 9, 1.23]);
  });

  it.each([
    ['debug', 2],
    ['info', 1],
    ['warn', 0],
    ['silent', 0],
  ])('is written or not, depending on the level %s', (level, count) => {
    const { log, lines } = createLog(level);
    write(log);
    write(log, LINE, 'probe');
    expect(lines).toHaveLength(count);
  });
});
