import { spawn } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { findFreePort, until } from './process.js';

/** A PgBouncer process in transaction mode. */
export interface Pooler {
  /** The URL of the database through PgBouncer. */
  readonly url: string;
  /** Runs a command of the admin console, such as `SHOW POOLS`. */
  show(command: string): Promise<Record<string, unknown>[]>;
  close(): Promise<void>;
}

/**
 * Starts a PgBouncer in front of one database.
 * @param poolSize - maximum number of connections to the PostgreSQL server
 */
export async function startPgbouncer(
  program: string,
  { databaseUrl, poolSize }: { databaseUrl: string; poolSize: number },
): Promise<Pooler> {
  const directory = await mkdtemp(join(tmpdir(), 'pgbouncer-'));
  await chmod(directory, 0o755);
  const port = await findFreePort();
  const target = new URL(databaseUrl);
  const settings = join(directory, 'pgbouncer.ini');
  await writeFile(
    settings,
    `[databases]
animals = host=${target.hostname} port=${target.port} dbname=${target.pathname.slice(1)} user=${target.username} password=${target.password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
admin_users = admin
pool_mode = transaction
default_pool_size = ${poolSize}
max_client_conn = 500
server_login_retry = 1
`,
  );
  // PgBouncer refuses to run as root.
  const child = spawn(program, [...(process.getuid?.() === 0 ? ['--user', 'nobody'] : []), settings], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const show = (command: string): Promise<Record<string, unknown>[]> =>
    ask(`postgres://admin@127.0.0.1:${port}/pgbouncer`, command);

  await until('PgBouncer listens', async () => {
    if (child.exitCode !== null) throw new Error(`PgBouncer ended: ${log}`);
    return show('SHOW VERSION').then(
      () => true,
      () => false,
    );
  });
  return {
    url: `postgres://gateway@127.0.0.1:${port}/animals`,
    show,
    async close() {
      child.kill('SIGKILL');
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function ask(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}
