import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { beforeAll, describe, expect, it } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';
import packageJson from '../../package.json' with { type: 'json' };
import serverJson from '../../server.json' with { type: 'json' };

/** The SDK's client begins with the newest edition, or with `initialize` if it is told to. */
const NEGOTIATIONS = { '2026-07-28': 'auto', '2025-11-25': 'legacy' } as const;

/** What a model asks for, and how many calls it takes. */
const TASKS: readonly (readonly [task: string, calls: number, run: (agent: Agent) => Promise<unknown>])[] = [
  ['how many requests are left?', 1, ({ call }) => call('limits')],
  ['the first three animals', 1, ({ call }) => call('list_pets', { limit: 3 })],
  ['all animals that are sold', 1, ({ call }) => call('list_pets', { status: 'sold', limit: 100 })],
  ['all animals, page by page', 4, ({ page }) => page({ limit: 3 })],
  ['two animals by id', 1, ({ call }) => call('get_pets', { ids: ['1', '9223372036854775807'] })],
  ['an animal that is absent', 1, ({ call }) => call('get_pets', { ids: ['404'] })],
  ['add an animal', 1, ({ call }) => call('add_pet', { name: 'Rex', categoryId: '1' })],
  ['add it again, because the answer was lost', 1, ({ call }) => call('add_pet', { name: 'Rex', categoryId: '1' })],
  ['correct a wrong argument', 2, ({ correct }) => correct()],
  ['add one and read it', 2, ({ addAndRead }) => addAndRead()],
];

interface Answer {
  readonly structuredContent: {
    readonly id: string;
    readonly pets: readonly { readonly id: string }[];
    readonly next?: string;
  };
}

interface Agent {
  readonly call: (name: string, args?: Record<string, unknown>) => Promise<Answer>;
  readonly page: (args: Record<string, unknown>) => Promise<string[]>;
  readonly correct: () => Promise<unknown>;
  readonly addAndRead: () => Promise<unknown>;
}

describe.each(MODES)("the SDK's client and a %s backend", (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    await gateway.sql(
      `INSERT INTO pets (id, name, category_id, status)
       SELECT id, 'Pet ' || id, 1, CASE WHEN id < 3 THEN 'sold' END FROM unnest('{1,2,3,4,5,6,7,8,9223372036854775807}'::bigint[]) AS id`,
    );
    await gateway.sql("SELECT setval(pg_get_serial_sequence('pets', 'id'), 100)");
    return () => gateway.close();
  });

  it.each(Object.entries(NEGOTIATIONS))('%s: ten tasks, from discovery to the answer', async (edition, negotiation) => {
    const { key } = await gateway.createKey();
    let requests = 0;
    let bytes = 0;
    const transport = new StreamableHTTPClientTransport(new URL(`${gateway.url}/mcp`), {
      requestInit: { headers: { Authorization: `Bearer ${key}` } },
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        const text = await response.clone().text();
        if (init?.method === 'POST') requests += 1;
        bytes += text.length + (typeof init?.body === 'string' ? init.body.length : 0);
        return response;
      },
    });
    const client = new Client({ name: 'ten-tasks', version: '1.0.0' }, { versionNegotiation: { mode: negotiation } });
    await client.connect(transport);
    expect(client.getNegotiatedProtocolVersion()).toBe(edition);
    const { tools } = await client.listTools();
    expect(tools).toHaveLength(4);
    const discovery = { requests, bytes };

    const call: Agent['call'] = (name, args = {}) =>
      client.callTool({ name, arguments: args }) as Promise<unknown> as Promise<Answer>;
    const agent: Agent = {
      call,
      async page(args) {
        const ids: string[] = [];
        for (let after: string | undefined; ;) {
          const { structuredContent: page } = await call('list_pets', { ...args, after });
          ids.push(...page.pets.map(({ id }) => id));
          if (page.next === undefined) return ids;
          after = page.next;
        }
      },
      async correct() {
        const refused = await call('list_pets', { status: 'SOLD' });
        expect(refused).toMatchObject({ isError: true, structuredContent: { code: 'invalid_request' } });
        return call('list_pets', { status: 'sold' });
      },
      async addAndRead() {
        const added = await call('add_pet', { name: 'Max', categoryId: '9007199254740993', status: 'pending' });
        const read = await call('get_pets', { ids: [added.structuredContent.id] });
        expect(read.structuredContent.pets).toEqual([added.structuredContent]);
        return read;
      },
    };
    const ids = (await gateway.sql<{ id: unknown }>('SELECT id FROM pets ORDER BY id')).map(({ id }) => String(id));
    const answers: unknown[] = [];
    const counts: number[] = [];
    for (const [, , run] of TASKS) {
      const before = requests;
      answers.push(await run(agent));
      counts.push(requests - before);
    }
    expect(counts).toEqual(TASKS.map(([, calls]) => calls));
    // Until the upstream has answered for a key, a gateway does not know its limits.
    const windows = mode === 'proxy' ? [] : [{ seconds: 60 }, { seconds: 86_400 }];
    expect(answers[0]).toMatchObject({ structuredContent: { windows } });
    expect(answers[1]).toMatchObject({ structuredContent: { pets: ids.slice(0, 3).map((id) => ({ id })) } });
    expect(answers[2]).toMatchObject({ structuredContent: { pets: [{ id: '1' }, { id: '2' }] } });
    expect(answers[8]).toEqual(answers[2]);
    expect(answers[3]).toEqual(ids);
    expect(answers[4]).toMatchObject({ structuredContent: { pets: [{ id: '1' }, { id: '9223372036854775807' }] } });
    expect(answers[5]).toMatchObject({ structuredContent: { pets: [], missing: ['404'] } });
    expect(answers[7]).toMatchObject({ structuredContent: (answers[6] as Answer).structuredContent });
    // What discovery costs an agent, and all ten tasks.
    expect(discovery.requests).toBeLessThanOrEqual(3);
    expect(discovery.bytes).toBeLessThan(6_000);
    expect(bytes).toBeLessThan(20_000);
    if (process.env.SHOW_BYTES) console.log(mode, edition, { discovery, requests, bytes });
    await client.close();
  });
});

it('server.json describes this version', () => {
  const { name: identifier, mcpName: name, version } = packageJson;
  expect(serverJson).toMatchObject({ name, version, packages: [{ identifier, version }] });
});
