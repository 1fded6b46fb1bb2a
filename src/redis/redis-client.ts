import { isIP } from 'node:net';
import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { splitHosts } from '../setting-types.js';

export type RedisClient = Redis | Cluster;

/** How long a Sentinel may take, in milliseconds, so that there is time to ask another one. */
const SENTINEL_MS = 300;

/**
 * Creates the clients of a link, for a URL that has been validated: a new one for each attempt to connect. None of them
 * queues or repeats a command.
 * @param connectMs - how long connecting may take
 */
export async function createRedisClients(url: string, connectMs: number) {
  // Imported on demand, so that a program without Redis starts faster. The default export, because a bundle has no
  // named exports of a CommonJS package.
  const { Redis, Cluster } = (await import('ioredis')).default;
  const { hosts, primaryName, username, password, database, tls } = parseRedisUrl(url) as RedisAddress;
  const host = hosts[0]?.host ?? '';
  const tlsOfAny = tls ? {} : undefined;
  const options = {
    username,
    password,
    db: database,
    tls: tls && !isIP(host) ? { servername: host } : tlsOfAny,
    lazyConnect: true,
    connectTimeout: connectMs,
    disconnectTimeout: 100,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: null,
    disableClientInfo: true,
    protocol: 2,
  } as const satisfies RedisOptions;
  /** The nodes of the cluster, if there is one. Any of them knows the others. */
  let nodes: RedisAddress['hosts'] | undefined;
  let created = 0;

  return {
    /** Creates a client that is not connected: of the next host, the primary that Sentinels name, or a cluster. */
    create(): RedisClient {
      if (nodes) return createCluster([...nodes, ...hosts]);
      if (primaryName === undefined) return new Redis({ ...options, ...hosts[created++ % hosts.length] });
      return new Redis({
        ...options,
        sentinels: [...hosts],
        name: primaryName,
        sentinelRetryStrategy: () => null,
        sentinelCommandTimeout: SENTINEL_MS,
        connectTimeout: SENTINEL_MS,
        enableTLSForSentinelMode: tls,
        tls: tlsOfAny,
        sentinelTLS: tlsOfAny,
      });
    },
    /**
     * Connects and checks that Redis can write. A server that loads its data, a replica or a full server cannot.
     * @returns `cluster` if the server is a node of a cluster. The next client is then one of the cluster.
     */
    async check(client: RedisClient): Promise<'usable' | 'cluster'> {
      await client.connect();
      if (client instanceof Cluster) {
        const primaries = client.nodes('master');
        await Promise.all(primaries.map((node) => node.ping()));
        nodes = primaries.map(({ options: { host = '', port = 0 } }) => ({ host, port }));
      } else if (primaryName === undefined && (await isClusterNode(client))) {
        if (database !== 0) throw new Error('a cluster has no database but 0');
        nodes = hosts;
        return 'cluster';
      }
      const word = String(Math.random());
      const write = `redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000) return redis.call('GET', KEYS[1])`;
      if ((await client.eval(write, 1, 'animals:greeting', word)) !== word)
        throw new Error('Redis did not return the value just written');
      return 'usable';
    },
  };

  function createCluster(startupNodes: RedisAddress['hosts']): Cluster {
    return new Cluster([...startupNodes], {
      lazyConnect: true,
      enableOfflineQueue: false,
      redisOptions: { ...options, tls: tlsOfAny },
      clusterRetryStrategy: null,
      slotsRefreshTimeout: connectMs,
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
    });
  }
}

/** Asks a server whether it belongs to a cluster. A proxy may not know the question. */
async function isClusterNode(client: Redis): Promise<boolean> {
  const reply: unknown = await client.info('cluster').catch((error: unknown) => {
    if ((error as Error).name === 'ReplyError') return '';
    throw error;
  });
  return typeof reply === 'string' && /^cluster_enabled:1\r?$/m.test(reply);
}

type RedisAddress = NonNullable<ReturnType<typeof parseRedisUrl>>;

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
