import { beforeAll, describe, expect, it } from 'vitest';
import { breakReads, MODES, petStatements, startGateway, type Gateway } from '../support/gateway.js';
import { callTool, EDITIONS, post, remaining, type McpAnswer, type McpOptions } from './messages.js';

const HIGHEST = '9223372036854775807';
const ODD = '9007199254740993';
const LOWEST = '-9223372036854775808';

describe.each(MODES)('tools of a %s backend', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
    await gateway.sql(
      `INSERT INTO pets (id, name, category_id, status)
       VALUES (1, 'Bella', 1, 'available'), (2, 'Milo', 9223372036854775807, NULL), ($1, 'Odd', 1, 'sold'), ($2, 'Last', 2, 'sold')`,
      [ODD, HIGHEST],
    );
    await gateway.sql("SELECT setval(pg_get_serial_sequence('pets', 'id'), 100)");
    return () => gateway.close();
  });

  const call = (name: string, args: Record<string, unknown> = {}, options: McpOptions = {}): Promise<McpAnswer> =>
    callTool(gateway, name, args, { key, ...options });

  it.each(EDITIONS)('%s: list_pets lists animals, and says where the next page begins', async (edition) => {
    const { status, result } = await call('list_pets', { limit: 2 }, { edition });
    expect(status).toBe(200);
    const expected = {
      pets: [
        { id: '1', name: 'Bella', categoryId: '1', status: 'available' },
        { id: '2', name: 'Milo', categoryId: HIGHEST },
      ],
      next: '2',
    };
    expect(result).toMatchObject({ structuredContent: expected });
    expect(result.isError).toBeUndefined();
    // Clients that do not know structured content show the text.
    expect(JSON.parse(result.content[0]?.text ?? '')).toEqual(expected);
    const { result: rest } = await call('list_pets', { after: '2', status: 'sold' }, { edition });
    expect(rest.structuredContent).toEqual({
      pets: [
        { id: ODD, name: 'Odd', categoryId: '1', status: 'sold' },
        { id: HIGHEST, name: 'Last', categoryId: '2', status: 'sold' },
      ],
    });
  });

  it('get_pets looks each id up once, and names those without an animal', async () => {
    gateway.statements.length = 0;
    const { result } = await call('get_pets', { ids: [HIGHEST, ODD, '77', ODD] });
    expect(result.structuredContent).toEqual({
      pets: [
        { id: HIGHEST, name: 'Last', categoryId: '2', status: 'sold' },
        { id: ODD, name: 'Odd', categoryId: '1', status: 'sold' },
      ],
      missing: ['77'],
    });
    if (mode !== 'proxy') expect(petStatements(gateway)).toHaveLength(1);
  });

  it('get_pets goes by lists while lookups are removed', async () => {
    const start = new Date(Date.now() - 600_000).toISOString().slice(0, 16);
    const rehearsal = await startGateway(mode, { BROWNOUTS: `${start}Z/PT1H` });
    try {
      await rehearsal.sql(
        `INSERT INTO pets (id, name, category_id) VALUES (${LOWEST}, 'First', 1), (${HIGHEST}, 'Last', 2)`,
      );
      const own = await rehearsal.createKey({ plan: 'free' });
      const ids = [HIGHEST, '77', LOWEST];
      const { result, headers } = await callTool(rehearsal, 'get_pets', { ids }, { key: own.key });
      expect(result.structuredContent).toEqual({
        pets: [
          { id: HIGHEST, name: 'Last', categoryId: '2' },
          { id: LOWEST, name: 'First', categoryId: '1' },
        ],
        missing: ['77'],
      });
      expect(headers.get('x-ratelimit-remaining')).toBe('57');
    } finally {
      await rehearsal.close();
    }
  });

  it('ids may be JSON numbers, however large', async () => {
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_pets","arguments":{"ids":[${ODD},${HIGHEST}]}}}`;
    const { result } = await post(gateway, body, { Authorization: `Bearer ${key}` });
    expect(result.structuredContent.pets.map(({ id }) => id)).toEqual([ODD, HIGHEST]);
  });

  it('numbers may be written as JSON allows', async () => {
    for (const [limit, isError] of [
      ['2', undefined],
      ['2.0', undefined],
      ['2e0', undefined],
      ['1.5', true],
      ['1e3', true],
      ['"2"', true],
    ] as const) {
      const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_pets","arguments":{"limit":${limit}}}}`;
      const { result } = await post(gateway, body, { Authorization: `Bearer ${key}` });
      expect([limit, result.isError]).toEqual([limit, isError]);
      expect(result.content[0]?.text).not.toMatch(/JsonNumber/);
    }
  });

  it('add_pet adds the same animal once, and another with a key of its own', async () => {
    const animal = { name: 'Rex', categoryId: HIGHEST, status: 'pending' };
    const first = await call('add_pet', animal, { id: 1 });
    expect(first.result.structuredContent).toEqual({ id: expect.any(String), ...animal });
    const again = await call('add_pet', animal, { id: 2, edition: '2025-11-25' });
    expect(again.result.structuredContent).toEqual(first.result.structuredContent);
    const twin = await call('add_pet', { ...animal, idempotencyKey: 'the second Rex' });
    expect(twin.result.structuredContent.id).not.toBe(first.result.structuredContent.id);
    const sent = await call('add_pet', { name: 'Max', categoryId: '1', idempotencyKey: 'the second Rex' });
    expect(sent.result).toMatchObject({
      isError: true,
      structuredContent: { code: 'idempotency_key_reused', cost: 1 },
    });
    const rows = await gateway.sql("SELECT id FROM pets WHERE name = 'Rex'");
    expect(rows).toHaveLength(2);
    // Another key adds an animal of its own.
    const other = await gateway.createKey();
    const { result } = await call('add_pet', animal, { key: other.key });
    expect(result.structuredContent.id).not.toBe(first.result.structuredContent.id);
  });

  it('the idempotency key is that of REST', async () => {
    const place = gateway.upstream ?? gateway;
    const response = await place.fetch('/v1/pets', {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json', 'Idempotency-Key': 'over-rest' },
      body: '{"name":"Shared","categoryId":5}',
    });
    const { id } = (await response.json()) as { id: number };
    const { result } = await call('add_pet', { name: 'Shared', categoryId: '5', idempotencyKey: 'over-rest' });
    expect(result.structuredContent.id).toBe(String(id));
  });

  it('each tool costs what it would over REST', async () => {
    const { key: other } = await gateway.createKey({ plan: 'free' });
    // A gateway learns of a key with its first request.
    await call('list_pets', {}, { key: other });
    const costs: [string, Record<string, unknown>, number][] = [
      ['list_pets', {}, 1],
      ['get_pets', { ids: ['1', '1', '2', '77'] }, 3],
      ['add_pet', { name: 'Rex', categoryId: '1' }, 1],
      ['add_pet', { name: 'Rex', categoryId: '1' }, 1],
      ['limits', {}, 0],
      ['list_pets', { limit: 500 }, 0],
      ['get_pets', { ids: [] }, 0],
      ['unknown', {}, 0],
    ];
    let left = 59;
    for (const [name, args, cost] of costs) {
      const { headers } = await call(name, args, { key: other });
      left -= cost;
      expect([name, headers.get('X-RateLimit-Remaining')]).toEqual([name, String(left)]);
    }
    expect(await remaining(gateway, other)).toBe(left);
  });

  it.each([
    ['list_pets', { limit: 500 }, 'limit must be a whole number from 1 to 100.'],
    ['list_pets', { limit: '20' }, 'limit must be a whole number from 1 to 100.'],
    ['list_pets', { limit: 1.5 }, 'limit must be a whole number from 1 to 100.'],
    ['list_pets', { status: 'SOLD' }, 'status must be available, pending, sold.'],
    ['list_pets', { after: '007' }, /^after must be a whole number/],
    ['list_pets', { after: '' }, /^after must be a whole number/],
    ['list_pets', { stats: 'sold' }, 'Unknown argument "stats": this tool takes limit, status, after.'],
    [
      'list_pets',
      JSON.parse('{"constructor":1}'),
      'Unknown argument "constructor": this tool takes limit, status, after.',
    ],
    ['limits', { key: 'x' }, 'Unknown argument "key": this tool takes no arguments.'],
    ['get_pets', {}, /^ids must be 1 to 50 ids/],
    ['get_pets', { ids: '1' }, /^ids must be 1 to 50 ids/],
    ['get_pets', { ids: Array.from({ length: 51 }, String) }, /^ids must be 1 to 50 ids/],
    ['get_pets', { ids: ['9223372036854775808'] }, /^ids must be 1 to 50 ids. Each must be a whole number/],
    ['get_pets', { ids: [null] }, /^ids must be 1 to 50 ids/],
    ['get_pets', { ids: [['1']] }, /^ids must be 1 to 50 ids/],
    ['get_pets', { ids: [{ toString: 1 }] }, /^ids must be 1 to 50 ids/],
    ['add_pet', { name: 'Rex' }, /^categoryId must be a whole number/],
    ['add_pet', { name: ' ', categoryId: '1' }, /^name must be 1 to 255 characters/],
    ['add_pet', { name: 5, categoryId: '1' }, /^name must be 1 to 255 characters/],
    ['add_pet', { name: 'Rex', categoryId: {} }, /^categoryId must be a whole number/],
    [
      'add_pet',
      { name: 'Rex', categoryId: '1', id: '5' },
      'Unknown argument "id": this tool takes name, categoryId, status, idempotencyKey.',
    ],
    [
      'add_pet',
      { name: 'Rex', categoryId: '1', idempotencyKey: 'é' },
      'idempotencyKey must be 1 to 255 printable ASCII characters.',
    ],
    [
      'add_pet',
      { name: 'Rex', categoryId: '1', idempotencyKey: 7 },
      'idempotencyKey must be 1 to 255 printable ASCII characters.',
    ],
  ])('%s refuses %j, uncharged', async (name, args, message) => {
    const before = await remaining(gateway, key);
    const { status, result } = await call(name, args as Record<string, unknown>);
    expect(status).toBe(200);
    expect(result).toMatchObject({ isError: true, structuredContent: { code: 'invalid_request' } });
    expect(result.content[0]?.text).toMatch(message);
    expect(await remaining(gateway, key)).toBe(before);
  });

  it('null counts as absent', async () => {
    const { result } = await call('list_pets', { limit: 1, status: null, after: null });
    expect(result.structuredContent.pets).toHaveLength(1);
    const body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_pets","arguments":null}}';
    const whole = await post(gateway, body, { Authorization: `Bearer ${key}` });
    expect(whole.result.structuredContent.pets.length).toBeGreaterThan(1);
  });
});

describe('a call that fails', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway('server');
    return () => gateway.close();
  });

  it('is a tool error that says nothing of its cause, and is charged', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    const repair = await breakReads(gateway);
    try {
      const { status, result, headers } = await callTool(gateway, 'list_pets', {}, { key });
      expect(status).toBe(200);
      expect(result).toMatchObject({ isError: true, structuredContent: { code: 'internal_error', remaining: 59 } });
      expect(result.content[0]?.text).toBe('Something went wrong on our side.');
      expect(headers.get('X-RateLimit-Remaining')).toBe('59');
      expect(gateway.logged.some(({ code }) => code === 'internal_error')).toBe(true);
    } finally {
      await repair();
    }
  });
});
