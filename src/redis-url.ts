import { splitHosts } from './setting-types.js';

export type RedisAddress = NonNullable<ReturnType<typeof parseRedisUrl>>;

const SCHEME = /^(rediss?)(?:\+(sentinel|cluster))?:$/;

/**
 * Parses `redis://user:password@host:port/database`, `redis+sentinel://host:port,host:port/name/database` or
 * `redis+cluster://host:port,host:port`. With TLS, the scheme begins with `rediss`.
 * @returns undefined if the text has another form
 */
export function parseRedisUrl(text: string) {
  if (/\s/.test(text)) return undefined;
  try {
    const urls = splitHosts(text).map((url) => new URL(url));
    const { protocol, username, password, pathname } = urls[0] as URL;
    const [, scheme, topology] = SCHEME.exec(protocol) ?? [];
    const path = pathname.split('/').slice(1).map(decodeURIComponent);
    const [name, database = ''] = topology === 'sentinel' ? path : [undefined, path.join('/')];
    if (!scheme || !/^\d{0,5}$/.test(database) || (topology === 'sentinel' && !name)) return undefined;
    // A cluster has only database 0.
    if (topology === 'cluster' ? Number(database) !== 0 : topology === undefined && urls.length > 1) return undefined;
    if (urls.some(({ hostname, search, hash }) => hostname === '' || search + hash !== '')) return undefined;
    return {
      topology,
      /** Of the server, nodes of the cluster, or Sentinels. */
      hosts: urls.map(({ hostname, port }) => ({
        host: hostname.replace(/^\[|\]$/g, ''),
        port: Number(port || (topology === 'sentinel' ? 26_379 : 6_379)),
      })),
      /** The name under which Sentinels know the primary. */
      name,
      username: decodeURIComponent(username) || undefined,
      password: decodeURIComponent(password) || undefined,
      db: Number(database),
      tls: scheme === 'rediss' ? {} : undefined,
    };
  } catch {
    // Not a URL, or not validly percent-encoded.
    return undefined;
  }
}
