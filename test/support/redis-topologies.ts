import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { findFreePort } from './free-port.js';
import { until } from './process.js';

/** Several Redis servers that belong together. */
export interface RedisTopology {
  readonly url: string;
  /** Kills the primary that holds a key. Returns when another server has taken its place. */
  failOver(key: string): Promise<void>;
  close(): Promise<void>;
}

/** Starts Redis processes in one directory, which `close` removes. */
async function createProcesses() {
  const directory = await mkdtemp(join(tmpdir(), 'redis-'));
  const children = new Map<number, ChildProcess>();
  return {
    directory,
    async start(isReady: RegExp, toArguments: (port: number) => readonly string[] | Promise<readonly string[]>) {
      const port = await findFreePort();
      const child = spawn('redis-server', await toArguments(port), {
        cwd: directory,
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      children.set(port, child);
      let said = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
      await until('Redis is ready', () => {
        if (child.exitCode !== null) throw new Error(`redis-server ended: ${said}`);
        return isReady.test(said);
      });
      return port;
    },
    kill: (port: number) => void children.get(port)?.kill('SIGKILL'),
    async close() {
      for (const child of children.values()) child.kill('SIGKILL');
      await rm(directory, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

const toPlain = (port: number): string[] =>
  `--port ${port} --bind 127.0.0.1 --appendonly no --repl-diskless-sync-delay 0 --save`.split(' ').concat('');
const READY = /Ready to accept connections/;

/** Sends one command to a server. */
export async function askRedis(port: number, command: string, ...args: string[]): Promise<unknown> {
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true, retryStrategy: null });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await client.call(command, ...args);
  } catch (error) {
    return error;
  } finally {
    client.disconnect();
  }
}

/** Starts a primary with a replica, and three Sentinels that watch them. */
export async function startSentinels(): Promise<RedisTopology> {
  const processes = await createProcesses();
  const primary = await processes.start(READY, toPlain);
  await processes.start(READY, (port) => [...toPlain(port), '--replicaof', '127.0.0.1', String(primary)]);
  const sentinels: number[] = [];
  for (let i = 0; i < 3; i++) {
    const start = async (port: number): Promise<string[]> => {
      const file = join(processes.directory, `sentinel-${port}.conf`);
      await writeFile(
        file,
        `port ${port}\nbind 127.0.0.1\nsentinel monitor animals 127.0.0.1 ${primary} 2\n` +
          'sentinel down-after-milliseconds animals 500\nsentinel failover-timeout animals 3000\n',
      );
      return [file, '--sentinel'];
    };
    sentinels.push(await processes.start(/\+monitor/, start));
  }
  const [first = 0] = sentinels;
  const primaryPort = async (): Promise<number> => {
    const [, port] = (await askRedis(first, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'animals')) as string[];
    return Number(port);
  };
  await until('the Sentinels know each other and the replica', async () => {
    const fields = (await askRedis(first, 'SENTINEL', 'MASTER', 'animals')) as string[];
    const valueOf = (name: string): string | undefined => fields[fields.indexOf(name) + 1];
    return valueOf('num-other-sentinels') === '2' && valueOf('num-slaves') === '1';
  });
  return {
    url: `redis+sentinel://${sentinels.map((port) => `127.0.0.1:${port}`).join()}/animals`,
    async failOver() {
      const failed = await primaryPort();
      processes.kill(failed);
      await until('another server is the primary', async () => (await primaryPort()) !== failed);
    },
    close: () => processes.close(),
  };
}

/** Starts a cluster of three primaries, each with a replica. */
export async function startCluster(): Promise<RedisTopology> {
  const processes = await createProcesses();
  const ports: number[] = [];
  for (let i = 0; i < 6; i++) {
    const start = async (port: number): Promise<string[]> => {
      const bus = await findFreePort();
      const file = `${processes.directory}/nodes-${port}.conf`;
      const cluster = `--cluster-enabled yes --cluster-port ${bus} --cluster-node-timeout 1000 --cluster-config-file ${file}`;
      return [...cluster.split(' '), ...toPlain(port)];
    };
    ports.push(await processes.start(READY, start));
  }
  const nodes = ports.map((port) => `127.0.0.1:${port}`);
  const create = spawn('redis-cli', ['--cluster', 'create', ...nodes, '--cluster-replicas', '1', '--cluster-yes']);
  await new Promise((resolve) => create.once('exit', resolve));
  const isWhole = async (port: number): Promise<boolean> =>
    String(await askRedis(port, 'CLUSTER', 'INFO')).includes('cluster_state:ok');
  const areReplicasLinked = async (): Promise<boolean> => {
    const states = await Promise.all(ports.map((port) => askRedis(port, 'INFO', 'replication')));
    return states.filter((text) => String(text).includes('master_link_status:up')).length === 3;
  };
  await until('the cluster is whole', async () => (await Promise.all(ports.map(isWhole))).every(Boolean));
  await until('the replicas follow', areReplicasLinked);
  return {
    url: `redis+cluster://${nodes.join()}`,
    async failOver(key) {
      // A node that does not hold the key names the one that does.
      const answers = await Promise.all(ports.map((port) => askRedis(port, 'EXISTS', key)));
      const moved = answers.map(String).find((text) => text.includes('MOVED'));
      const failed = Number(moved?.split(':').at(-1));
      processes.kill(failed);
      const others = ports.filter((port) => port !== failed);
      await until('a replica has taken over', async () => {
        const texts = await Promise.all(others.map((port) => askRedis(port, 'CLUSTER', 'NODES')));
        const isSettled = (text: string): boolean => new RegExp(`:${failed}@.* master,fail `).test(text);
        return texts.map(String).every(isSettled) && (await Promise.all(others.map(isWhole))).every(Boolean);
      });
    },
    close: () => processes.close(),
  };
}
