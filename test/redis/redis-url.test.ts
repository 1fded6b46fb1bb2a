import { describe, expect, it } from 'vitest';
import { parseRedisUrl } from '../../src/redis-url.js';

const PLAIN = { db: 0 };

describe('the URL of Redis', () => {
  it.each([
    ['redis://host', { ...PLAIN, hosts: [{ host: 'host', port: 6_379 }] }],
    [
      'rediss://u:p%2Fw@host:1/3',
      { hosts: [{ host: 'host', port: 1 }], username: 'u', password: 'p/w', db: 3, tls: {} },
    ],
    ['redis://:p:w@[::1]:2', { ...PLAIN, hosts: [{ host: '::1', port: 2 }], password: 'p:w' }],
    [
      'redis+cluster://u:p@a:1,b',
      {
        ...PLAIN,
        topology: 'cluster',
        username: 'u',
        password: 'p',
        hosts: [
          { host: 'a', port: 1 },
          { host: 'b', port: 6_379 },
        ],
      },
    ],
    ['rediss+cluster://a', { ...PLAIN, topology: 'cluster', hosts: [{ host: 'a', port: 6_379 }], tls: {} }],
    [
      'redis+sentinel://a:1,b/animals',
      {
        ...PLAIN,
        topology: 'sentinel',
        hosts: [
          { host: 'a', port: 1 },
          { host: 'b', port: 26_379 },
        ],
        name: 'animals',
      },
    ],
    [
      'rediss+sentinel://:pw@a/animals/7',
      { hosts: [{ host: 'a', port: 26_379 }], name: 'animals', password: 'pw', topology: 'sentinel', db: 7, tls: {} },
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
    'redis://a:1,b:2',
    'redis+cluster://a:1/1',
    'redis+other://a:1',
    'http://a',
  ])('%s is refused', (text) => {
    expect(parseRedisUrl(text)).toBeUndefined();
  });
});
