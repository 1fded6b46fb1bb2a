import { isIP } from 'node:net';

/** A server, nodes of a cluster, or Sentinels that know where the primary is. */
export interface RedisAddress {
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  /** The name under which Sentinels know the primary. Absent without Sentinels. */
  readonly primaryName?: string;
  /** Absent if the URL has none. */
  readonly username?: string;
  readonly password?: string;
  readonly database: number;
  readonly tls: boolean;
}

const FORM = /^(rediss?)(\+sentinel)?:\/\/(?:([^@/]*)@)?([^@/?#]+)((?:\/[^/?#]*)*)(?:\?[^#]*)?$/i;
const DEFAULT_PORT = 6_379;
const SENTINEL_PORT = 26_379;

/**
 * Parses `redis://user:password@host:port/database`, or
 * `redis+sentinel://user:password@host:port,host:port/name/database`. With TLS, the scheme begins with `rediss`.
 * @returns undefined if the text has another form
 */
export function parseRedisUrl(text: string): RedisAddress | undefined {
  const [, scheme = '', sentinel, credentials = '', list = '', path = ''] = FORM.exec(text) ?? [];
  const [name, database = ''] = sentinel ? path.split('/').slice(1) : [undefined, path.slice(1)];
  const hosts = list.split(',').map((host) => parseHost(host, sentinel ? SENTINEL_PORT : DEFAULT_PORT));
  if (list === '' || hosts.includes(undefined) || !/^\d{0,5}$/.test(database) || name === '' || (sentinel && !name))
    return undefined;
  try {
    const [username = '', password = ''] = splitOnce(credentials).map(decodeURIComponent);
    return {
      hosts: hosts.filter((host) => host !== undefined),
      ...(name !== undefined && { primaryName: decodeURIComponent(name) }),
      ...(username && { username }),
      ...(password && { password }),
      database: Number(database),
      tls: scheme.toLowerCase() === 'rediss',
    };
  } catch {
    return undefined;
  }
}

function parseHost(text: string, defaultPort: number): { host: string; port: number } | undefined {
  const [, bracketed, plain, port = defaultPort] = /^(?:\[([^\]]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || Number(port) > 65_535 || (bracketed && isIP(bracketed) !== 6)) return undefined;
  return { host, port: Number(port) };
}

function splitOnce(credentials: string): string[] {
  const colon = credentials.indexOf(':');
  return colon < 0 ? [credentials] : [credentials.slice(0, colon), credentials.slice(colon + 1)];
}
