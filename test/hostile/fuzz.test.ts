import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { isInt64 } from '../../src/pets/int64.js';
import { isName } from '../../src/pets/pet.js';
import { collectGarbage } from '../support/garbage.js';
import { startGateway, STORES, type Gateway } from '../support/gateway.js';
import { createBadInputs, type BadInput } from './bad-inputs.js';
import { sendRaw } from './raw-http.js';

/** The number of inputs and their seed. A failure names both, so that it can be reproduced. */
const INPUTS = Number(process.env.HOSTILE_INPUTS ?? 500);
const SEED = Number(process.env.HOSTILE_SEED ?? 1);

vi.setConfig({ testTimeout: 60_000 + INPUTS * 100 });

describe.each(STORES)('generated bad inputs, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode, { MAX_BODY_BYTES: '20000', LOG_LEVEL: 'warn' });
    ({ key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 10_000_000, perDay: 10_000_000 } }));
  });
  afterAll(() => gateway.close());

  it(`get no 5xx, and no invalid input is accepted: ${INPUTS} inputs with seed ${SEED}`, async () => {
    const statuses = new Map<number, number>();
    let added = 0;
    let slowest = 0;
    let heapAtFirst = 0;
    const startedAt = performance.now();
    const inputs = createBadInputs({ seed: SEED, key });
    for (let done = 0; done < INPUTS;) {
      const group = Array.from({ length: Math.min(20, INPUTS - done) }, () => inputs.next());
      await Promise.all(group.map((input) => send(input)));
      gateway.statements.length = 0;
      done += group.length;
      // The document caches are full by then.
      if (heapAtFirst === 0 && done >= INPUTS / 2) heapAtFirst = measureHeap();
    }
    const growth = (measureHeap() - heapAtFirst) / 1e6;
    const shares = [...statuses].sort(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`);
    console.log(
      `${mode}: ${INPUTS} inputs in ${Math.round((performance.now() - startedAt) / 1_000)} s, the slowest in ${Math.round(slowest)} ms; ` +
        `${shares.join(', ')}; ${added} animals; the heap grew by ${growth.toFixed(1)} MB in the second half`,
    );
    expect(growth).toBeLessThan(30);
    expect(gateway.logged.filter(({ level }) => Number(level) >= 50)).toEqual([]);

    const animals = await gateway.sql<{ name: string; category_id: string; status: string | null }>(
      'SELECT * FROM pets',
    );
    expect(animals).toHaveLength(added);
    for (const { name, category_id: categoryId, status } of animals) {
      expect(isName(name)).toBe(true);
      expect(isInt64(categoryId)).toBe(true);
      expect([null, 'available', 'pending', 'sold']).toContain(status);
    }

    async function send(input: BadInput): Promise<void> {
      const sentAt = performance.now();
      const { status, text } = input.kind === 'raw' ? await sendBytes(input) : await sendRequest(input);
      slowest = Math.max(slowest, performance.now() - sentAt);
      const what = `${JSON.stringify(input).slice(0, 2_000)} was answered ${status}: ${text.slice(0, 500)}`;
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      expect(status, what).toBeGreaterThanOrEqual(200);
      expect(status, what).toBeLessThan(500);
      if (input.kind === 'raw') return;
      if (status === 201) added += 1;
      // Damage may change an alias, but only an intact addPet adds an animal.
      if (input.body?.includes('addPet') && status === 200) added += countAnimals(text);
      if (input.isBad) expect(isRefused(status, text), what).toBe(true);
    }
  });

  async function sendRequest({ path, method, headers, body }: BadInput & { kind: 'request' }): Promise<Answer> {
    const response = await gateway.fetch(path, {
      method,
      headers,
      ...(body !== undefined && { body: Buffer.from(body, 'latin1') }),
    });
    return { status: response.status, text: await response.text() };
  }

  /** A connection closed without a response also counts as a refusal, with status 499. */
  async function sendBytes({ bytes }: BadInput & { kind: 'raw' }): Promise<Answer> {
    const { status = 499, text } = await sendRaw(gateway.url, (socket) => socket.end(Buffer.from(bytes, 'latin1')));
    return { status, text };
  }
});

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** Whether the response has no data: a 4xx or, in GraphQL, null for every field. */
function isRefused(status: number, text: string): boolean {
  if (status >= 400) return true;
  return toAnswers(text).every(
    ({ data, errors }) => errors !== undefined && Object.values(data ?? {}).every((value) => value === null),
  );
}

function countAnimals(text: string): number {
  return toAnswers(text)
    .flatMap(({ data }) => Object.values(data ?? {}))
    .filter((value) => typeof value === 'object' && value !== null).length;
}

interface GraphqlResult {
  readonly data?: Record<string, unknown>;
  readonly errors?: readonly unknown[];
}

function toAnswers(text: string): readonly GraphqlResult[] {
  return [JSON.parse(text) as GraphqlResult | GraphqlResult[]].flat();
}

function measureHeap(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}
