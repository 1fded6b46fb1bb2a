import { readdir, readFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makePlace, until, type Place } from '../support/process.js';

describe('the memory of the program', () => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });
  afterEach(() => place.close());

  it('keeps no long texts of the lists of an upstream', async () => {
    const store = await place.start({ PORT: '0' });
    const { business } = await place.developmentKeys();
    const add = Array.from({ length: 100 }, (_, n) => `a${n}: addPet(input: { name: "x", categoryId: 1 }) { id }`);
    await store.graphql(`mutation { ${add.join(' ')} }`, business);
    const env = { PORT: '0', UPSTREAM_URL: `${store.url}/v1`, NODE_OPTIONS: '--max-old-space-size=128' };
    const gateway = await place.start(env);
    const aliases = Array.from({ length: 330 }, (_, n) => `a${n}${'x'.repeat(190)}: id`);
    const query = `query ($limit: Int!) { pets(limit: $limit) { ${aliases.join(' ')} } }`;
    for (let limit = 100; limit > 60; limit -= 1) {
      const { data } = (await gateway.graphql(query, business, { limit })) as { data: { pets: unknown[] } };
      expect(data.pets).toHaveLength(limit);
    }
  });

  it('keeps no long names of agents', async () => {
    const store = await place.start({ PORT: '0' });
    const env = { PORT: '0', UPSTREAM_URL: `${store.url}/v1`, NODE_OPTIONS: '--max-old-space-size=128' };
    const gateway = await place.start(env);
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x'.repeat(1_000_000) } };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
    for (let count = 0; count < 200; count += 1) {
      const headers = { Authorization: `Bearer made-up-${count}`, 'Content-Type': 'application/json' };
      const response = await gateway.fetch('/mcp', { method: 'POST', headers, body });
      await response.arrayBuffer();
    }
    expect((await gateway.fetch('/livez')).status).toBe(200);
  });

  it('survives a stranger that sends as much as it can, in a heap of 256 MB', async () => {
    const program = await place.start({ PORT: '0', NODE_OPTIONS: '--max-old-space-size=256' });
    const start = 'POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n';
    const headers = Array.from({ length: 190 }, (_, n) => `h${n}: ${'v'.repeat(110)}\r\n`).join('');
    const chunk = `200\r\n${'x'.repeat(512)}\r\n0\r\n\r\n`;
    const unfinished = start + Array.from({ length: 1_000 }, (_, n) => `h${n % 10}: v${n % 10}\r\n`).join('');
    const unread = `${start}${headers}\r\n${chunk}`.repeat(20);
    for (const [connections, text] of [
      [5_000, unfinished],
      [700, unread],
    ] as const) {
      const sockets: Socket[] = [];
      for (let count = 1; count <= connections; count += 1) {
        sockets.push(connect(Number(new URL(program.url).port), '127.0.0.1'));
        sockets
          .at(-1)
          ?.on('error', () => undefined)
          .write(text);
        if (count % 100 === 0) await sleep(10);
      }
      await until('all is sent', () => sockets.every(({ closed, writableLength }) => closed || !writableLength));
      // The program reads what the kernel has.
      await sleep(6_000);
      await until('it serves others', async () => {
        const answer = await program.fetch('/livez').catch(() => undefined);
        return answer?.status === 200;
      });
      expect(sockets.filter(({ closed }) => !closed).length).toBeGreaterThan(100);
      for (const socket of sockets) socket.destroy();
    }
    const warnings =
      program.stdout.match(/the oldest idle connections are closed, because more than 1\d{3} are open/g) ?? [];
    expect(warnings.length).toBeGreaterThan(0);
    expect(warnings.length).toBeLessThan(20);
  });

  it.each(['store', 'proxy'])('has no key a few seconds after its last request, in %s mode', async (mode) => {
    const env = { PORT: '0', NODE_OPTIONS: '--heapsnapshot-signal=SIGUSR2' };
    // The first start makes the keys, and prints them.
    const first = await place.start({ PORT: '0' });
    if (mode === 'store') await first.stop();
    const program = await place.start(mode === 'store' ? env : { ...env, UPSTREAM_URL: `${first.url}/v1` });
    const keys = JSON.parse(await readFile(join(place.directory, '.data/dev-keys.json'), 'utf8')) as Record<
      string,
      string
    >;
    const used = keys.pro as string;
    const revoked = keys.business as string;
    const madeUp = `${used.slice(0, -1)}${used.endsWith('a') ? 'b' : 'a'}`;
    for (const key of [used, madeUp, revoked]) {
      for (const path of ['/v1/pets', '/graphql?query={pets{id}}']) {
        const response = await program.fetch(path, {
          headers: { Authorization: `Bearer ${key}`, Connection: 'close' },
        });
        await response.arrayBuffer();
      }
    }
    const listed = JSON.parse((await place.keys(['list', '--plan', 'business', '--json'])).stdout) as { id: string }[];
    await place.keys(['revoke', listed[0]?.id as string]);
    await until('the revoked key is refused', async () => {
      const headers = { Authorization: `Bearer ${revoked}`, Connection: 'close' };
      return (await program.fetch('/graphql?query={pets{id}}', { headers })).status === 401;
    });
    // Node's parser reuses its buffers for later requests.
    for (let count = 0; count < 50; count += 1) await (await program.fetch('/livez')).arrayBuffer();
    await sleep(6_000);
    program.signal('SIGUSR2');
    let file: string | undefined;
    await until('there is a heap snapshot', async () => {
      file = (await readdir(place.directory)).find((name) => name.endsWith('.heapsnapshot'));
      return file !== undefined && (await readFile(join(place.directory, file), 'utf8')).trimEnd().endsWith('}');
    });
    const snapshot = await readFile(join(place.directory, file as string), 'utf8');
    expect(snapshot.length).toBeGreaterThan(1_000_000);
    for (const key of [used, madeUp, revoked]) expect(snapshot.includes(key)).toBe(false);
  });
});
