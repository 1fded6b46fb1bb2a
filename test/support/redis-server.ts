import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { Redis } from 'ioredis';
import type { TestProject } from 'vitest/node';
import { findFreePort } from './free-port.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** A real Redis server, perhaps shared with others: nothing in it is removed or counted as a whole. */
    readonly redisUrl: string | undefined;
    /** Whether tests can start servers of their own, to stop and restart them. */
    readonly hasRedisServer: boolean;
  }
}

const LOCAL_URL = 'redis://127.0.0.1:6379';

/** Finds a Redis server for the suites that need one, or says in one line that they are skipped. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const hasRedisServer = spawnSync('redis-server', ['--version']).status === 0;
  project.provide('hasRedisServer', hasRedisServer);
  const url = await findServer();
  if (url === undefined && hasRedisServer) {
    const server = await startRedisServer();
    project.provide('redisUrl', server.url);
    return () => server.close();
  }
  project.provide('redisUrl', url);
  if (url === undefined) {
    complain('neither TEST_REDIS_URL nor 127.0.0.1:6379 nor a redis-server on the PATH: all its suites are SKIPPED');
  } else if (!hasRedisServer) complain('no redis-server on the PATH: the suites that stop Redis are SKIPPED');
  return () => Promise.resolve();
}

async function findServer(): Promise<string | undefined> {
  const { TEST_REDIS_URL } = process.env;
  if (!TEST_REDIS_URL) return (await answers(LOCAL_URL)) ? LOCAL_URL : undefined;
  if (await answers(TEST_REDIS_URL)) return TEST_REDIS_URL;
  throw new Error('TEST_REDIS_URL names no Redis server that answers.');
}

/** Says what is missing: a failure where everything should be there. */
function complain(what: string): void {
  if (process.env.CI === 'true') throw new Error(`Redis: ${what}; with CI=true that is a failure.`);
  console.warn(`Redis: ${what}`);
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

/** A Redis server of a test's own. */
export interface RedisServer {
  readonly url: string;
  readonly port: number;
  signal(name: NodeJS.Signals): void;
  /** Ends it at once; whatever it held is gone. */
  kill(): Promise<void>;
  /** Starts it anew on its port, empty. */
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Starts a Redis server on a free port of this machine, which keeps nothing on disk. */
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
