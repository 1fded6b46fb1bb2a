import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { Redis } from 'ioredis';
import { findFreePort } from './free-port.js';

const LOCAL_URL = 'redis://127.0.0.1:6379';

/** The Redis server that the suites share, and whether a suite can start its own. */
export interface FoundRedis {
  readonly url: string | undefined;
  readonly hasServer: boolean;
  close(): Promise<void>;
}

/**
 * Finds a Redis server, or starts one. Without one, it prints one line that says which suites are skipped.
 * @throws Error with `CI=true`, where no suite may be skipped
 */
export async function findRedis(): Promise<FoundRedis> {
  const hasServer = spawnSync('redis-server', ['--version']).status === 0;
  const url = await findServer();
  if (url === undefined && hasServer) {
    const server = await startRedisServer();
    return { url: server.url, hasServer, close: () => server.close() };
  }
  if (url === undefined) {
    complain(
      'all Redis suites are SKIPPED: no TEST_REDIS_URL, no server on 127.0.0.1:6379, no redis-server on the PATH',
    );
  } else if (!hasServer) {
    complain('the suites that stop Redis servers are SKIPPED: no redis-server on the PATH');
  }
  return { url, hasServer, close: () => Promise.resolve() };
}

async function findServer(): Promise<string | undefined> {
  const { TEST_REDIS_URL } = process.env;
  if (!TEST_REDIS_URL) return (await answers(LOCAL_URL)) ? LOCAL_URL : undefined;
  if (await answers(TEST_REDIS_URL)) return TEST_REDIS_URL;
  throw new Error('No Redis server answers at TEST_REDIS_URL.');
}

function complain(what: string): void {
  if (process.env.CI === 'true') throw new Error(`With CI=true no suite may be skipped, but ${what}`);
  console.warn(what);
}

async function answers(url: string): Promise<boolean> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: null, connectTimeout: 2_000 });
  client.on('error', () => undefined);
  const answer = await client
    .connect()
    .then(() => client.ping())
    .catch(() => '');
  client.disconnect();
  return answer === 'PONG';
}

/** A Redis server that belongs to one suite. */
export interface RedisServer {
  readonly url: string;
  readonly port: number;
  signal(name: NodeJS.Signals): void;
  /** Kills the server. Its data is lost. */
  kill(): Promise<void>;
  /** Starts the server again on the same port, empty. */
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Starts a Redis server on a free port of this machine. It writes nothing to disk. */
export async function startRedisServer(...settings: readonly string[]): Promise<RedisServer> {
  const port = await findFreePort();
  let child: ChildProcess | undefined;
  const kill = async (): Promise<void> => {
    const ending = child;
    if (ending?.exitCode !== null || ending.signalCode !== null) return;
    const ended = new Promise((resolve) => ending.once('exit', resolve));
    ending.kill('SIGKILL');
    await ended;
  };
  const endAtExit = (): void => void child?.kill('SIGKILL');
  const start = async (): Promise<void> => {
    const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', ...settings];
    const starting = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'ignore'] });
    child = starting;
    await new Promise<void>((resolve, reject) => {
      let said = '';
      starting.once('error', reject);
      starting.once('exit', () => reject(new Error(`redis-server ended: ${said}`)));
      starting.stdout.setEncoding('utf8').on('data', (text: string) => {
        said += text;
        if (said.includes('Ready to accept connections')) resolve();
      });
    });
  };
  process.once('exit', endAtExit);
  await start();
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    signal: (name) => void child?.kill(name),
    kill,
    start,
    async close() {
      process.off('exit', endAtExit);
      await kill();
    },
  };
}
