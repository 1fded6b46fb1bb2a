import { createServer, connect, type AddressInfo, type Server } from 'node:net';
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Account, Ledger } from '../../src/access/ledger.js';
import { createMemoryLedger } from '../../src/access/memory-ledger.js';
import { toWindows } from '../../src/access/plans.js';
import { shareLedger } from '../../src/redis/redis-ledger.js';
import type { RedisLink } from '../../src/redis/redis-link.js';
import { describeWithRedis, openTestLink, redisUrl } from '../support/redis.js';

describeWithRedis('corrupt replies', () => {
  /** A reply sent instead of that from Redis, or before it. */
  let injected: { readonly text: string; readonly instead: boolean } | undefined;
  let between: Server;
  let link: RedisLink;
  let failures: string[];
  let logged: string[];
  let ledger: Ledger;
  let account: Account;

  beforeEach(async () => {
    injected = undefined;
    const { hostname, port } = new URL(redisUrl());
    between = createServer((client) => {
      const redis = connect(Number(port || 6_379), hostname);
      client.on('error', () => redis.destroy());
      redis.on('error', () => client.destroy());
      client.on('close', () => redis.destroy());
      client.on('data', (chunk) => {
        if (injected) client.write(injected.text);
        if (!injected?.instead) redis.write(chunk);
      });
      redis.on('data', (chunk) => client.write(chunk));
    });
    await new Promise<void>((ready) => between.listen(0, '127.0.0.1', ready));
    const url = new URL(redisUrl());
    url.host = `127.0.0.1:${(between.address() as AddressInfo).port}`;
    ({ link, failures, logged } = await openTestLink(url.href));
    ledger = shareLedger(link, createMemoryLedger(), (id) => `animals:test:{${id}}`);
    account = { id: randomUUID(), windows: toWindows({ perMinute: 60, perDay: 1_000 }) };
    return () => {
      link.close();
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
    ['numbers of another call', { text: '*8\r\n:999\r\n:0\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n', instead }],
    ['an array without an end', { text: '*2000000000\r\n', instead }],
    ['a text without an end', { text: '$999999999\r\nabc', instead }],
    ['one answer too many, well-formed', { text: ':1\r\n', instead: false }],
    ['nothing at all', { text: '', instead }],
  ])('%s: the request is answered, and the connection is discarded', async (_, injection) => {
    expect([await admit(), await admit()]).toEqual([59, 58]);
    injected = injection;
    expect(await Promise.all([admit(), admit(), admit()])).toEqual([57, 56, 55]);
    expect(link.isUp).toBe(false);
    expect(failures).not.toEqual([]);

    injected = undefined;
    await vi.waitFor(() => expect(link.isUp).toBe(true), { timeout: 5_000 });
    // Another process, which only has the counts in Redis, continues from there.
    const other = shareLedger(link, createMemoryLedger(), (id) => `animals:test:{${id}}`);
    const mine = (await admit()) ?? NaN;
    expect(mine).toBeLessThan(55);
    expect((await other.admit(account, 1)).windows[0]?.remaining).toBe(mine - 1);
    expect(logged.filter((line) => line.includes('Redis is back'))).toHaveLength(1);
  });
});

describe('a Redis server that cannot be used', () => {
  const servers: Server[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });

  /** Starts a server that sends `text` in reply to every command. */
  async function answering(text: string): Promise<number> {
    const server = createServer((socket) => {
      socket.on('error', () => undefined).on('data', () => void socket.write(text));
    });
    servers.push(server);
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
    return (server.address() as AddressInfo).port;
  }

  it.each([
    ['refuses the password', '-WRONGPASS invalid username-password pair or user is disabled.\r\n', 'WRONGPASS'],
    [
      'quotes the command that it received',
      "-ERR unknown command 'AUTH', with args beginning with: 's3cret-word'\r\n",
      'AUTH',
    ],
    ['sends the same reply to everything', '+OK\r\n', 'did not return the value just written'],
  ])('%s: it counts as unavailable, and the link states the reason without the password', async (_, text, why) => {
    const { link, logged, failures } = await openTestLink(`redis://:s3cret-word@127.0.0.1:${await answering(text)}`);
    expect(link.isUp).toBe(false);
    expect(failures).toEqual(['unreachable']);
    // Nothing counts alone yet: the start waits for the link, and reports the reason.
    expect(logged).toEqual([]);
    expect(link.failure).toContain(why);
    expect(link.failure).not.toContain('s3cret-word');
    link.close();
  });
});

describeWithRedis('a database that does not exist on the server', () => {
  it('is not replaced by another database', async () => {
    const url = new URL(redisUrl());
    url.pathname = '/99999';
    const { link } = await openTestLink(url.href);
    expect(link.isUp).toBe(false);
    expect(link.failure).toContain('DB index');
    link.close();
  });
});
