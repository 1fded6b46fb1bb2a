import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { findFreePort } from './free-port.js';
import { findPostgresUser } from './installed-postgres.js';
import { findProgram } from './installed-program.js';
import { until } from './process.js';
import { findWithChildren, killAll, send } from './processes.js';
import { runSql } from './sql.js';

/** Two PostgreSQL servers that Patroni manages, with synchronous replication. */
export interface PatroniCluster {
  /** A URL with both hosts. */
  readonly url: string;
  /** Returns a URL of the primary. */
  findPrimary(): Promise<string>;
  /** Makes the other server the primary, in the regular way. */
  switchOver(): Promise<void>;
  /** Kills the primary and its Patroni with `kill -9`, as if their machine were lost. */
  killPrimary(): Promise<void>;
  close(): Promise<void>;
}

interface Member {
  readonly name: string;
  readonly port: number;
  readonly patroni: ChildProcess;
}

/** The shortest time after which Patroni replaces a lost primary. */
const TTL_SECONDS = 20;

export async function startPatroni(): Promise<PatroniCluster> {
  const user = findPostgresUser();
  const directory = await mkdtemp(join(tmpdir(), 'patroni-'));
  const etcdPort = await findFreePort();
  const peerPort = await findFreePort();
  const etcdUrl = `http://127.0.0.1:${etcdPort}`;
  await mkdir(join(directory, 'etcd'));
  if (user) for (const path of [directory, join(directory, 'etcd')]) await chown(path, user.uid, user.gid);
  const start = (program: string, args: readonly string[]): ChildProcess =>
    spawn(findProgram(program) as string, args, { cwd: directory, stdio: 'ignore', ...user });
  const etcd = start('etcd', [
    ...['--data-dir', join(directory, 'etcd'), '--unsafe-no-fsync', '--listen-client-urls', etcdUrl],
    ...['--advertise-client-urls', etcdUrl, '--listen-peer-urls', `http://127.0.0.1:${peerPort}`],
    ...['--initial-advertise-peer-urls', `http://127.0.0.1:${peerPort}`],
    ...['--initial-cluster', `default=http://127.0.0.1:${peerPort}`],
  ]);
  await until('etcd answers', () =>
    fetch(`${etcdUrl}/health`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  const members: Member[] = [];
  for (const name of ['one', 'two']) {
    const [port, restPort] = [await findFreePort(), await findFreePort()];
    const config = toConfig({ name, port, restPort, etcdPort, directory });
    const file = join(directory, `${name}.json`);
    // YAML contains JSON.
    await writeFile(file, JSON.stringify(config));
    members.push({ name, port, patroni: start('patroni', [file]) });
    if (name === 'one') await until('there is a primary', async () => (await findPrimaries()).length === 1);
  }

  async function findPrimaries(): Promise<Member[]> {
    const answers = members.map(async ({ port }) => {
      const text = 'SELECT pg_is_in_recovery() AS "isStandby"';
      const [row] = await runSql<{ isStandby: boolean }>(toUrl(port), text).catch(() => []);
      return row?.isStandby === false;
    });
    const arePrimary = await Promise.all(answers);
    return members.filter((_, index) => arePrimary[index]);
  }

  async function getPrimary(): Promise<Member> {
    const [primary] = await findPrimaries();
    if (!primary) throw new Error('there is no primary');
    return primary;
  }

  /** Waits until an acknowledged addition is on both servers. */
  async function isSynchronous(): Promise<boolean> {
    const [primary] = await findPrimaries();
    if (!primary) return false;
    const rows = await runSql(toUrl(primary.port), "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'");
    return rows.length === 1;
  }
  await until('the standby is synchronous', isSynchronous, 120_000);

  return {
    url: `postgres://postgres@${members.map(({ port }) => `127.0.0.1:${port}`).join()}/postgres?target_session_attrs=read-write`,
    findPrimary: async () => toUrl((await getPrimary()).port),
    async switchOver() {
      const primary = await getPrimary();
      const args = ['-c', join(directory, 'one.json'), 'switchover', 'animals', '--force', '--master', primary.name];
      await promisify(execFile)(findProgram('patronictl') as string, args, { ...user, cwd: directory });
      await until('the other server is the primary', async () => {
        const [now] = await findPrimaries();
        return now !== undefined && now !== primary && (await isSynchronous());
      });
    },
    async killPrimary() {
      const primary = await getPrimary();
      await killMember(primary);
      await until('the other server is the primary', async () => (await findPrimaries()).length === 1);
    },
    async close() {
      for (const member of members) await killMember(member);
      etcd.kill('SIGKILL');
      await rm(directory, { recursive: true, force: true, maxRetries: 5 });
    },
  };

  async function killMember({ name, patroni }: Member): Promise<void> {
    const postmaster = Number(
      await promisify(execFile)('head', ['-1', join(directory, name, 'postmaster.pid')]).then(
        ({ stdout }) => stdout,
        () => 0,
      ),
    );
    if (patroni.exitCode === null) patroni.kill('SIGKILL');
    if (postmaster > 0 && send(postmaster, 0)) await killAll(await findWithChildren(postmaster));
  }
}

const toUrl = (port: number): string => `postgres://postgres@127.0.0.1:${port}/postgres`;

interface MemberSettings {
  readonly name: string;
  readonly port: number;
  readonly restPort: number;
  readonly etcdPort: number;
  readonly directory: string;
}

function toConfig({ name, port, restPort, etcdPort, directory }: MemberSettings): object {
  return {
    scope: 'animals',
    name,
    restapi: { listen: `127.0.0.1:${restPort}`, connect_address: `127.0.0.1:${restPort}` },
    etcd3: { host: `127.0.0.1:${etcdPort}` },
    bootstrap: {
      dcs: {
        ttl: TTL_SECONDS,
        loop_wait: 2,
        retry_timeout: 5,
        synchronous_mode: true,
        postgresql: { use_pg_rewind: true },
      },
      initdb: ['data-checksums', { encoding: 'UTF8' }, { locale: 'C' }, { auth: 'trust' }],
    },
    postgresql: {
      listen: `127.0.0.1:${port}`,
      connect_address: `127.0.0.1:${port}`,
      data_dir: join(directory, name),
      bin_dir: dirname(findProgram('initdb') as string),
      pgpass: join(directory, `${name}.pgpass`),
      authentication: {
        superuser: { username: 'postgres' },
        replication: { username: 'postgres' },
        rewind: { username: 'postgres' },
      },
      parameters: { unix_socket_directories: directory },
      pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'],
    },
  };
}
