import { splitHosts } from '../setting-types.js';

export type RedisAddress = NonNullable<ReturnType<typeof parseRedisUrl>>;

const SCHEME = /^(rediss?)(\+sentinel)?:$/;

/**
 * Parses `redis://user:password@host:port/database`, or
 * `redis+sentinel://user:password@host:port,host:port/name/database`. With TLS, the scheme begins with `rediss`.
 * @returns a server, nodes of a cluster, or Sentinels; undefined if the text has another form
 */
export function parseRedisUrl(text: string) {
  try {
    const urls = splitHosts(text).map((url) => new URL(url));
    const { protocol, username, password, pathname } = urls[0] as URL;
    const [, scheme, sentinel] = SCHEME.exec(protocol) ?? [];
    const path = pathname.split('/').slice(1).map(decodeURIComponent);
    const [name, database = ''] = sentinel ? path : [undefined, path.join('/')];
    if (!scheme || !/^\d{0,5}$/.test(database) || (sentinel && !name)) return undefined;
    if (urls.some(({ hostname, hash }) => hostname === '' || hash !== '')) return undefined;
    return {
      hosts: urls.map(({ hostname, port }) => ({
        host: hostname.replace(/^\[|\]$/g, ''),
        port: Number(port || (sentinel ? 26_379 : 6_379)),
      })),
      /** The name under which Sentinels know the primary. Undefined without Sentinels. */
      primaryName: name,
      username: decodeURIComponent(username) || undefined,
      password: decodeURIComponent(password) || undefined,
      database: Number(database),
      tls: scheme === 'rediss',
    };
  } catch {
    // Not a URL, or not validly percent-encoded.
    return undefined;
  }
}
