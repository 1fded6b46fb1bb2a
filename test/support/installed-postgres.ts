import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findFreePort } from './free-port.js';
import { findProgram } from './installed-program.js';
import { until } from './process.js';
import { findWithChildren, killAll } from './processes.js';
import { runSql } from './sql.js';

/** A server of the installed PostgreSQL. Unlike the one from npm, it can have a standby and restore a backup. */
export interface InstalledPostgres {
  readonly port: number;
  readonly url: string;
  /** The directory of its files. */
  readonly data: string;
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Kills each of its processes with `kill -9`. */
  kill(): Promise<void>;
  /** Makes a standby the primary. */
  promote(): Promise<void>;
}

/** The servers of one drill. */
export interface PostgresServers {
  /** A directory that belongs to the user of the servers. */
  readonly directory: string;
  /** Creates a server and starts it. */
  primary(settings?: Readonly<Record<string, string>>): Promise<InstalledPostgres>;
  /** Copies a running server and starts the copy as its standby, with this `application_name`. */
  standby(of: InstalledPostgres, name: string): Promise<InstalledPostgres>;
  /** A server on existing files, which is not started. */
  server(data: string): Promise<InstalledPostgres>;
  /** Runs a program of PostgreSQL as the user of the servers. */
  run(program: string, ...args: string[]): Promise<string>;
  /** Stops the servers and removes their files. */
  close(): Promise<void>;
}

/** The user of the servers: PostgreSQL refuses to run as root. */
export function findPostgresUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' })));
  return { uid: uid as number, gid: gid as number };
}

export async function openPostgresServers(): Promise<PostgresServers> {
  const user = findPostgresUser();
  const directory = await mkdtemp(join(tmpdir(), 'drill-postgres-'));
  if (user) await chown(directory, user.uid, user.gid);
  const servers: InstalledPostgres[] = [];
  let count = 0;

  const run = async (program: string, ...args: string[]): Promise<string> => {
    const { stdout } = await promisify(execFile)(findProgram(program) as string, args, { cwd: directory, ...user });
    return stdout;
  };

  async function server(data: string, settings: Readonly<Record<string, string>> = {}): Promise<InstalledPostgres> {
    const port = await findFreePort();
    const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
    const flags = Object.entries({
      port: String(port),
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      ...settings,
    }).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    let child: ChildProcess | undefined;
    const isOver = (): boolean => child?.exitCode !== null || child.signalCode !== null;
    const one: InstalledPostgres = {
      port,
      url,
      data,
      async start() {
        const starting = spawn(findProgram('postgres') as string, ['-D', data, ...flags], {
          ...user,
          stdio: ['ignore', 'ignore', 'pipe'],
        });
        child = starting;
        let log = '';
        starting.stderr.setEncoding('utf8').on('data', (text: string) => (log = (log + text).slice(-2_000)));
        await until('PostgreSQL answers', async () => {
          if (isOver()) throw new Error(`PostgreSQL ended: ${log}`);
          return runSql(url, 'SELECT').then(
            () => true,
            () => false,
          );
        });
      },
      async stop() {
        child?.kill('SIGINT');
        await until('PostgreSQL has ended', isOver);
      },
      async kill() {
        if (!isOver()) await killAll(await findWithChildren(child?.pid as number));
      },
      async promote() {
        await run('pg_ctl', 'promote', '-D', data);
      },
    };
    servers.push(one);
    return one;
  }

  return {
    directory,
    run,
    server,
    async primary(settings) {
      const data = join(directory, `server-${++count}`);
      await run('initdb', '-D', data, '--auth=trust', '--username=postgres', '--encoding=UTF8', '--locale=C');
      const one = await server(data, settings);
      await one.start();
      return one;
    },
    async standby(of, name) {
      const data = join(directory, `server-${++count}`);
      const source = `host=127.0.0.1 port=${of.port} user=postgres application_name=${name}`;
      await run('pg_basebackup', '-D', data, '-d', source, '-R', '-c', 'fast');
      const one = await server(data);
      await one.start();
      return one;
    },
    async close() {
      for (const one of servers) await one.kill();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Changes a setting of a running server. */
export async function setParameter(url: string, name: string, value: string): Promise<void> {
  await runSql(url, `ALTER SYSTEM SET ${name} = '${value}'`);
  await runSql(url, 'SELECT pg_reload_conf()');
}
