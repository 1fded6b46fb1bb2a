import { describe, expect, it } from 'vitest';
import { parseRedisUrl } from '../../src/redis/redis-client.js';

const PLAIN = { database: 0, tls: false };

describe('the URL of Redis', () => {
  it.each([
    ['redis://host', { ...PLAIN, hosts: [{ host: 'host', port: 6_379 }] }],
    [
      'rediss://u:p%2Fw@host:1/3',
      { hosts: [{ host: 'host', port: 1 }], username: 'u', password: 'p/w', database: 3, tls: true },
    ],
    ['redis://:p:w@[::1]:2', { ...PLAIN, hosts: [{ host: '::1', port: 2 }], password: 'p:w' }],
    ['redis://a:1,b:2', { ...PLAIN, hosts: [1, 2].map((port) => ({ host: port === 1 ? 'a' : 'b', port })) }],
    [
      'redis+sentinel://a:1,b/animals',
      {
        ...PLAIN,
        hosts: [
          { host: 'a', port: 1 },
          { host: 'b', port: 26_379 },
        ],
        primaryName: 'animals',
      },
    ],
    [
      'rediss+sentinel://:pw@a/animals/7',
      { hosts: [{ host: 'a', port: 26_379 }], primaryName: 'animals', password: 'pw', database: 7, tls: true },
    ],
  ])('%s is understood', (text, expected) => {
    expect(parseRedisUrl(text)).toEqual(expected);
  });

  it.each([
    'redis://',
    'redis://a/x',
    'redis://a/0/1',
    'redis://a:99999',
    'redis://a,',
    'redis://[::g]',
    'redis://a b',
    'redis+sentinel://a:1',
    'redis+sentinel://a:1/',
    'redis+sentinel://a:1/animals/x',
    'redis+cluster://a:1',
    'http://a',
  ])('%s is refused', (text) => {
    expect(parseRedisUrl(text)).toBeUndefined();
  });
});
