import { beforeAll, describe, expect, it, vi } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';
import { callTool, EDITIONS, post, send, type McpAnswer, type McpOptions } from './messages.js';

const LIST = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';

describe.each(MODES)('the protocol of a %s backend', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
    return () => gateway.close();
  });

  const ask = (method: string, params = {}, options: McpOptions = {}): Promise<McpAnswer> =>
    send(gateway, method, params, { key, ...options });
  const authorization = () => ({ Authorization: `Bearer ${key}` });

  it('the edition of 2025 begins with initialize', async () => {
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'old', version: '1' } };
    const { status, result } = await ask('initialize', params, { edition: '2025-11-25', headers: {} });
    expect(status).toBe(200);
    expect(result).toMatchObject({
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'animal-store-gateway', version: expect.any(String) },
      instructions: expect.stringContaining('Ids are 64-bit integers'),
    });
    const notification = '{"jsonrpc":"2.0","method":"notifications/initialized"}';
    const noted = await post(gateway, notification, { ...authorization(), 'MCP-Protocol-Version': '2025-11-25' });
    expect([noted.status, noted.text]).toEqual([202, '']);
    expect((await ask('ping', {}, { edition: '2025-11-25' })).result).toEqual({});
  });

  it('the edition of 2026 begins with server/discover', async () => {
    const { status, result } = await ask('server/discover');
    expect(status).toBe(200);
    expect(result).toMatchObject({ supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, ttlMs: 3_600_000 });
  });

  it.each(EDITIONS)('%s: the list of tools is the same each time, and has at most 4 kB', async (edition) => {
    const first = await ask('tools/list', {}, { edition });
    expect((await ask('tools/list', {}, { edition })).text).toBe(first.text);
    expect(first.text.length).toBeLessThan(4_000);
    const { tools } = first.result;
    expect(tools.map(({ name }) => name)).toEqual(['list_pets', 'get_pets', 'add_pet', 'limits']);
    for (const { name, description, inputSchema, outputSchema, annotations } of tools) {
      expect(description).toMatch(/Costs 1 request|Free/);
      expect([inputSchema.type, outputSchema.type]).toEqual(['object', 'object']);
      const readOnlyHint = name !== 'add_pet';
      expect(annotations).toMatchObject({ readOnlyHint, destructiveHint: false, idempotentHint: true });
    }
    const isNew = edition === '2026-07-28';
    expect(first.result.ttlMs).toBe(isNew ? 3_600_000 : undefined);
    expect(first.result.cacheScope).toBe(isNew ? 'private' : undefined);
  });

  it('the list of tools says how arguments may look', async () => {
    const { result } = await ask('tools/list');
    const [list, , add] = result.tools.map(({ inputSchema }) => inputSchema.properties);
    expect(list).toMatchObject({
      limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
      after: { type: 'string', description: expect.any(String) },
    });
    expect(add).toMatchObject({ name: { type: 'string', minLength: 1, maxLength: 255 } });
  });

  it('discovery is free', async () => {
    const { key: other } = await gateway.createKey({ plan: 'free' });
    await callTool(gateway, 'list_pets', {}, { key: other });
    for (const method of [
      'initialize',
      'ping',
      'tools/list',
      'prompts/list',
      'server/discover',
      'subscriptions/listen',
    ]) {
      for (const edition of EDITIONS) {
        const { headers } = await ask(method, {}, { key: other, edition });
        expect([method, headers.get('X-RateLimit-Remaining')]).toEqual([method, '59']);
      }
    }
  });

  it.each([
    ['no Mcp-Method', { 'Mcp-Method': '' }],
    ['another Mcp-Method', { 'Mcp-Method': 'tools/list' }],
    ['no Mcp-Name', { 'Mcp-Name': '' }],
    ['another Mcp-Name', { 'Mcp-Name': 'get_pets' }],
    ['another edition', { 'MCP-Protocol-Version': '2025-11-25' }],
  ])('headers that do not repeat the message are refused: %s', async (_, headers) => {
    const { status, body } = await callTool(gateway, 'list_pets', {}, { key, headers, id: 'a' });
    expect([status, body.error.code, body.id]).toEqual([400, -32_020, 'a']);
  });

  it('Mcp-Name may be encoded', async () => {
    const headers = { 'Mcp-Name': `=?base64?${Buffer.from('list_pets').toString('base64')}?=` };
    expect((await callTool(gateway, 'list_pets', {}, { key, headers })).status).toBe(200);
  });

  it.each(['1764250000000000', '"1764250000000000"', '"a"', '0'])(
    'the id of a request may be %s, also if it is refused',
    async (id) => {
      const body = `{"jsonrpc":"2.0","id":${id},"method":"ping"}`;
      const { status, text } = await post(gateway, body, authorization());
      expect([status, text]).toEqual([200, expect.stringContaining(`"id":${id}`)]);
      const refused = await post(gateway, body, { ...authorization(), 'MCP-Protocol-Version': '2026-07-28' });
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining(`"id":${id}`)]);
    },
  );

  it('clients may state capabilities with any number', async () => {
    const capabilities = '{"experimental":{"a":{"ratio":0.5,"most":12345678901234567890}}}';
    const params = `{"protocolVersion":"2025-11-25","capabilities":${capabilities},"clientInfo":{"name":"c","version":"1"}}`;
    const body = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":${params}}`;
    expect((await post(gateway, body, authorization())).body).toMatchObject({ id: 1, result: { capabilities: {} } });
  });

  it('a subscription ends at once, because nothing changes', async () => {
    const headers = { 'Mcp-Method': 'subscriptions/listen' };
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const response = await gateway.fetch('/mcp', {
      method: 'POST',
      headers: {
        ...authorization(),
        'Content-Type': 'application/json',
        'MCP-Protocol-Version': '2026-07-28',
        ...headers,
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'subscriptions/listen',
        params: { notifications: { toolsListChanged: true }, _meta: meta },
      }),
    });
    expect([response.status, response.headers.get('Content-Type')]).toEqual([200, 'text/event-stream']);
    expect(await response.text()).toContain('notifications/subscriptions/acknowledged');
  });

  it('an edition that does not exist is refused with those that do', async () => {
    const { status, body } = await ask('tools/list', {}, { edition: '2031-01-01' as never });
    expect(status).toBe(400);
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2031-01-01',
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const message = JSON.stringify({ jsonrpc: '2.0', id: 4, method: 'tools/list', params: { _meta: meta } });
    const headers = { ...authorization(), 'MCP-Protocol-Version': '2031-01-01', 'Mcp-Method': 'tools/list' };
    const refused = await post(gateway, message, headers);
    expect([refused.status, refused.body.error.code, refused.body.id]).toEqual([400, -32_022, 4]);
    expect(refused.body.error.data).toEqual({ supported: ['2026-07-28'], requested: '2031-01-01' });
    const old = await ask(
      'tools/list',
      {},
      { edition: '2025-11-25', headers: { 'MCP-Protocol-Version': '2020-01-01' } },
    );
    expect(old.status).toBe(400);
    expect(body.error.message).toBeTruthy();
  });

  it('unknown methods and tools are errors of the protocol', async () => {
    const unknown = await ask('prompts/list');
    expect([unknown.status, unknown.body.error.code]).toEqual([404, -32_601]);
    const old = await ask('prompts/list', {}, { edition: '2025-11-25' });
    expect([old.status, old.body.error.code]).toEqual([200, -32_601]);
    const { status, body } = await callTool(gateway, 'drop_pets', {}, { key });
    expect([status, body.error]).toEqual([200, { code: -32_602, message: 'There is no tool "drop_pets".' }]);
  });

  it.each([
    ['a batch', `[${LIST}]`, 400, -32_600],
    ['an empty batch', '[]', 400, -32_600],
    ['no message', '{"method":1}', 400, -32_600],
    ['null', 'null', 400, -32_600],
    ['no JSON', '{', 400, -32_700],
    ['a key twice', '{"jsonrpc":"2.0","jsonrpc":"2.0"}', 400, -32_700],
    ['a fraction as id', LIST.replace('1', '1.5'), 400, -32_600],
    ['an id beyond 2^53', LIST.replace('1', '9007199254740993'), 400, -32_600],
  ])('%s is refused', async (_, body, status, code) => {
    const answer = await post(gateway, body, authorization());
    const { jsonrpc, id, error } = answer.body;
    expect([answer.status, error.code, jsonrpc, id]).toEqual([status, code, '2.0', null]);
    expect(answer.headers.get('X-RateLimit-Limit') ?? 'unknown').toMatch(/1000|unknown/);
  });

  it('a response that a client sends is only acknowledged', async () => {
    const { status } = await post(gateway, '{"jsonrpc":"2.0","id":1,"result":{}}', authorization());
    expect(status).toBe(202);
  });

  it('bodies are bounded and must be JSON', async () => {
    const large = await post(gateway, `{"a":"${'x'.repeat(1_048_576)}"}`, authorization());
    expect([large.status, large.body.error.data.code]).toEqual([413, 'payload_too_large']);
    const members = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`m${index}`, 1]));
    const full = await ask('tools/call', { name: 'limits', arguments: members });
    expect(full.status).toBe(400);
    const text = await post(gateway, LIST, { ...authorization(), 'Content-Type': 'text/plain' });
    expect([text.status, text.body.error.data.code]).toEqual([415, 'unsupported_media_type']);
  });

  it.each(['GET', 'DELETE', 'PUT'])('%s is refused', async (method) => {
    const response = await gateway.fetch('/mcp', { method, headers: authorization() });
    expect([response.status, response.headers.get('Allow')]).toEqual([405, 'POST']);
    const below = await gateway.fetch('/mcp/sse', { method, headers: authorization() });
    expect(below.status).toBe(404);
  });

  it('needs a key, also for discovery', async () => {
    for (const [sent, challenge] of [
      [{}, 'Bearer realm="animal-store"'],
      [{ Authorization: 'Bearer pets_wrong' }, 'Bearer realm="animal-store", error="invalid_token"'],
    ] as const) {
      const { status, headers, body } = await post(gateway, '{', sent);
      // A gateway learns from its upstream whether a key is valid, so it reads the message first.
      if (mode === 'proxy' && 'Authorization' in sent) continue;
      expect([status, headers.get('WWW-Authenticate')]).toEqual([401, challenge]);
      expect(body.error.data).toEqual({ code: 'unauthorized' });
    }
    const refused = await callTool(gateway, 'list_pets', {}, { key: `${key.slice(0, -1)}~` });
    expect(refused.status).toBe(401);
    expect(refused.headers.get('WWW-Authenticate')).toContain('Bearer realm="animal-store"');
    // What the address has left is no limit of a key.
    if (mode === 'proxy') expect(refused.result.structuredContent).toEqual({ code: 'unauthorized', cost: 0 });
  });

  it('pages of other origins are refused, before anything else', async () => {
    for (const Origin of ['http://evil.example.com', 'null', 'https://localhost.example.com']) {
      for (const headers of [{}, authorization()]) {
        const { status, body } = await post(gateway, LIST, { ...headers, Origin });
        expect([Origin, status, body.error.data.code]).toEqual([Origin, 403, 'forbidden']);
      }
    }
    const Origin = 'http://localhost:6274';
    const { status, headers } = await post(gateway, LIST, { ...authorization(), Origin });
    expect([status, headers.get('Access-Control-Allow-Origin')]).toEqual([200, Origin]);
  });

  it('answers preflights, also for the headers of the protocol', async () => {
    const requested = 'authorization,content-type,mcp-protocol-version,mcp-method,mcp-name';
    const response = await gateway.fetch('/mcp', {
      method: 'OPTIONS',
      headers: {
        Origin: 'http://localhost:6274',
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': requested,
      },
    });
    expect(response.status).toBe(204);
    const allowed = (response.headers.get('Access-Control-Allow-Headers') ?? '').toLowerCase().split(', ');
    for (const name of requested.split(',')) expect(allowed).toContain(name);
  });

  it('logs the tool, its cost and the request id', async () => {
    gateway.logged.length = 0;
    const headers = { 'X-Request-Id': 'from-agent' };
    const answer = await callTool(gateway, 'get_pets', { ids: ['5', '6'] }, { key, headers });
    expect(answer.headers.get('X-Request-Id')).toBe('from-agent');
    await vi.waitFor(() =>
      expect(gateway.logged).toContainEqual(
        expect.objectContaining({ requestId: 'from-agent', path: '/mcp', operations: 'get_pets', cost: 2 }),
      ),
    );
  });
});

describe('settings', () => {
  it('MCP=false turns it off', async () => {
    const gateway = await startGateway('embedded', { MCP: 'false' });
    try {
      const { key } = await gateway.createKey();
      const response = await gateway.fetch('/mcp', {
        method: 'POST',
        headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
        body: LIST,
      });
      expect(response.status).toBe(404);
      const interfaces = await (await gateway.fetch('/llms.txt')).text();
      expect(interfaces).toContain('- [REST](/v1/openapi.json)');
      expect(interfaces).not.toContain('/mcp');
    } finally {
      await gateway.close();
    }
  });

  it('CORS_ORIGINS names the pages that may use it; in production, none may by default', async () => {
    const gateway = await startGateway('server', { NODE_ENV: 'production', CORS_ORIGINS: 'https://app.example.com' });
    try {
      const { key } = await gateway.createKey();
      const from = async (Origin: string) =>
        (await post(gateway, LIST, { Authorization: `Bearer ${key}`, Origin })).status;
      expect(await from('https://app.example.com')).toBe(200);
      expect(await from('http://localhost:4000')).toBe(403);
      expect(await from(gateway.url)).toBe(403);
    } finally {
      await gateway.close();
    }
  });
});
