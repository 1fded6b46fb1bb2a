import { createServer, connect, type AddressInfo, type Server } from 'node:net';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { pino } from 'pino';
import type { Account, Ledger } from '../../src/access/ledger.js';
import { createMemoryLedger } from '../../src/access/memory-ledger.js';
import { toWindows } from '../../src/access/plans.js';
import { createStartupWait } from '../../src/backend.js';
import { ConfigError } from '../../src/config.js';
import type { RedisClient } from '../../src/redis/client.js';
import { shareLedger } from '../../src/redis/ledger.js';
import { startRedisServer } from '../support/redis-server.js';
import { connectRedis, describeWithRedis, describeWithRedisServer, openTestRedis, redisUrl } from '../support/redis.js';

const log = pino({ enabled: false });

describeWithRedis('corrupt replies', () => {
  /** A reply sent instead of that from Redis, or before it. */
  let injected: { readonly text: string; readonly instead: boolean } | undefined;
  let between: Server;
  let client: RedisClient;
  let failures: string[];
  let logged: string[];
  let ledger: Ledger;
  let account: Account;

  beforeEach(async () => {
    injected = undefined;
    const { hostname, port } = new URL(redisUrl());
    between = createServer((socket) => {
      const redis = connect(Number(port || 6_379), hostname);
      socket.on('error', () => redis.destroy());
      redis.on('error', () => socket.destroy());
      socket.on('close', () => redis.destroy());
      socket.on('data', (chunk) => {
        if (injected) socket.write(injected.text);
        if (!injected?.instead) redis.write(chunk);
      });
      redis.on('data', (chunk) => socket.write(chunk));
    });
    await new Promise<void>((ready) => between.listen(0, '127.0.0.1', ready));
    const url = new URL(redisUrl());
    url.host = `127.0.0.1:${(between.address() as AddressInfo).port}`;
    ({ client, failures, logged } = await openTestRedis(url.href));
    ledger = shareLedger(client, createMemoryLedger(), (id) => `animals:test:{${id}}`);
    account = { id: randomUUID(), windows: toWindows({ perMinute: 60, perDay: 1_000 }) };
    return () => {
      client.close();
      between.close();
    };
  });

  const admit = async (): Promise<number | undefined> => (await ledger.admit(account, 1)).windows[0]?.remaining;

  const instead = true;
  it.each([
    ['an error page', { text: 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n', instead }],
    ['bytes', { text: '\u0000\u0001\r\n\t', instead }],
    ['a status', { text: '+OK\r\n', instead }],
    ['nothing', { text: '$-1\r\n', instead }],
    ['an unknown error', { text: '-OOM command not allowed when used memory > maxmemory.\r\n', instead }],
    ['an array without an end', { text: '*2000000000\r\n', instead }],
    ['a text without an end', { text: '$999999999\r\nabc', instead }],
    ['one answer too many, well-formed', { text: ':1\r\n', instead: false }],
    ['nothing at all', { text: '', instead }],
  ])('%s: each request is counted once, and the connection is replaced', async (_, injection) => {
    expect([await admit(), await admit()]).toEqual([59, 58]);
    injected = injection;
    let left = 58;
    // A reply that never ends is late, and three late replies in a row are an outage.
    for (let round = 0; round < 3; round++) {
      expect(await Promise.all([admit(), admit(), admit()])).toEqual([left - 1, left - 2, left - 3]);
      left -= 3;
    }
    expect(client.isUp).toBe(false);
    expect(failures).not.toEqual([]);

    injected = undefined;
    await vi.waitFor(() => expect(client.isUp).toBe(true), { timeout: 5_000 });
    expect(await admit()).toBe(left - 1);
    // Another process, which only has the counts in Redis, continues from there.
    const other = shareLedger(client, createMemoryLedger(), (id) => `animals:test:{${id}}`);
    expect((await other.admit(account, 1)).windows[0]?.remaining).toBe(left - 2);
    expect(logged.filter((line) => line.includes('Redis is back'))).toHaveLength(1);
  });
});

describe('a Redis server that cannot be used', () => {
  const servers: Server[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });

  /** Starts a server that sends the lines of `text` in reply to one command each, and the last to all others. */
  async function answering(text: string): Promise<number> {
    const server = createServer((socket) => {
      const lines = text.match(/.*\r\n/g) ?? [];
      socket
        .on('error', () => undefined)
        .on('data', () => {
          const line = lines.length > 1 ? lines.shift() : lines[0];
          if (line !== undefined) socket.write(line);
        });
    });
    servers.push(server);
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
    return (server.address() as AddressInfo).port;
  }

  const start = (port: number, path = '') =>
    openTestRedis(`redis://:s3cret-word@127.0.0.1:${port}${path}`, {
      waitUntilAvailable: createStartupWait(log, 2_000),
    });

  it.each([
    ['refuses the password', '-WRONGPASS Mot de passe incorrect.\r\n', 'WRONGPASS to HELLO'],
    ['requires a password', '-NOAUTH Non.\r\n', 'NOAUTH to HELLO'],
    ['quotes the command that it received', "-ERR command 'HELLO', with 's3cret-word'\r\n", 'ERR to HELLO'],
    ['does not let the user run scripts', '+OK\r\n-NOPERM Non.\r\n', 'NOPERM'],
  ])('%s: the start fails at once, and states the reason without the password', async (_, text, why) => {
    const startedAt = performance.now();
    const error = (await start(await answering(text)).catch((error: unknown) => error)) as Error;
    expect(error).toBeInstanceOf(ConfigError);
    expect(error.message).toMatch(/^REDIS_URL names a Redis that /);
    expect(error.message).toContain(why);
    expect(error.message).not.toContain('s3cret-word');
    expect(performance.now() - startedAt).toBeLessThan(1_500);
  });

  it.each([
    ['sends the same reply to everything', '+OK\r\n', /is not available: .+ \(waited for 2 s\)$/],
    ['loads its data', '+OK\r\n-LOADING Redis is loading\r\n', /is not available: LOADING .+ \(waited for 2 s\)$/],
    ['never answers', '', /is not available: .+ \(waited for 2 s\)$/],
  ])('%s: the start waits, and then states the reason', async (_, text, why) => {
    await expect(start(await answering(text))).rejects.toThrow(why);
  });
});

describeWithRedisServer('a user that may not run a command of a script', () => {
  it('is noticed at the start', async () => {
    const server = await startRedisServer();
    const admin = await connectRedis(server.url);
    await admin.call('ACL', 'SETUSER', 'gw', 'on', '>word', '~animals:*', '+@all', '-time');
    const url = `redis://gw:word@127.0.0.1:${server.port}`;
    await expect(openTestRedis(url, { waitUntilAvailable: createStartupWait(log, 1_000) })).rejects.toThrow(/script/);
    await admin.call('ACL', 'SETUSER', 'gw', '+time');
    const { client } = await openTestRedis(url, { waitUntilAvailable: createStartupWait(log, 1_000) });
    expect(client.isUp).toBe(true);
    client.close();
    admin.disconnect();
    await server.close();
  });
});

describeWithRedisServer('a Redis whose memory is full', () => {
  it('is unavailable until it accepts writes again', async () => {
    const server = await startRedisServer('--maxmemory-policy', 'noeviction');
    const admin = await connectRedis(server.url);
    const { client, logged } = await openTestRedis(server.url);
    const ledger = shareLedger(client, createMemoryLedger(), (id) => `animals:test:{${id}}`);
    const admit = () => ledger.admit({ id: 'a', windows: toWindows({ perMinute: 60, perDay: 1_000 }) }, 1);
    await admin.config('SET', 'maxmemory', '1');
    for (let i = 0; i < 10; i++) {
      await admit();
      await sleep(150);
    }
    expect(client.isUp).toBe(false);
    expect(logged.filter((line) => line.includes('Redis is back'))).toEqual([]);
    await admin.config('SET', 'maxmemory', '0');
    await vi.waitFor(() => expect(client.isUp).toBe(true), { timeout: 5_000 });
    client.close();
    admin.disconnect();
    await server.close();
  });
});

describeWithRedis('a database that does not exist on the server', () => {
  it('is not replaced by another database, and ends the start at once', async () => {
    const url = new URL(redisUrl());
    url.pathname = '/99999';
    const waitUntilAvailable = createStartupWait(log, 60_000);
    await expect(openTestRedis(url.href, { waitUntilAvailable })).rejects.toThrow('answers ERR to SELECT');
  });
});

describeWithRedis('a password that the server does not require', () => {
  it('is no reason for ioredis to write to standard error', async () => {
    const written = [vi.spyOn(console, 'warn'), vi.spyOn(console, 'error')];
    const url = new URL(redisUrl());
    url.password ||= 'not-required';
    const { client } = await openTestRedis(url.href);
    expect(client.isUp).toBe(true);
    client.close();
    for (const spy of written) expect(spy).not.toHaveBeenCalled();
    vi.restoreAllMocks();
  });
});
