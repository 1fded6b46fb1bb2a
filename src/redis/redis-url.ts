import { splitHosts } from '../setting-types.js';

/** A server, nodes of a cluster, or Sentinels that know where the primary is. */
export interface RedisAddress {
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  /** The name under which Sentinels know the primary. Absent without Sentinels. */
  readonly primaryName?: string;
  readonly username?: string;
  readonly password?: string;
  readonly database: number;
  readonly tls: boolean;
}

const SCHEME = /^(rediss?)(\+sentinel)?:$/;

/**
 * Parses `redis://user:password@host:port/database`, or
 * `redis+sentinel://user:password@host:port,host:port/name/database`. With TLS, the scheme begins with `rediss`.
 * @returns undefined if the text has another form
 */
export function parseRedisUrl(text: string): RedisAddress | undefined {
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
      ...(name !== undefined && { primaryName: name }),
      ...(username && { username: decodeURIComponent(username) }),
      ...(password && { password: decodeURIComponent(password) }),
      database: Number(database),
      tls: scheme === 'rediss',
    };
  } catch {
    // Not a URL, or not validly percent-encoded.
    return undefined;
  }
}
