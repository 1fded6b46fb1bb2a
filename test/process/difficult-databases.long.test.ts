import { createServer, type AddressInfo } from 'node:net';
import { createSecureContext, TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { makeCertificate } from '../support/certificate.js';
import { describeWith } from '../support/installed-program.js';
import { linesOf, makePlace, type Ended, type Place } from '../support/process.js';
import { runSql } from '../support/sql.js';

let place: Place;
beforeAll(async () => {
  place = await makePlace();
});
afterAll(() => place.close());

const onServer = (text: string): Promise<object[]> => runSql(inject('postgresUrl'), text);

/** Creates a role that may do nothing, and returns the URL of a database with it. */
async function createRole(database: string, options: string): Promise<{ url: string; role: string }> {
  const role = `role_of_${new URL(database).pathname.slice(1)}`;
  await onServer(`CREATE ROLE ${role} LOGIN PASSWORD 'postgres' ${options}`);
  const url = new URL(database);
  url.username = role;
  return { url: url.href, role };
}

async function createKey(database: string): Promise<string> {
  const limits = ['--per-minute', '1000', '--per-day', '1000'];
  const { stdout } = await place.keys(['create', '--plan', 'enterprise', ...limits, '--json'], {
    DATABASE_URL: database,
  });
  return (JSON.parse(stdout) as { key: string }).key;
}

describe('a start ends at once, with one line,', () => {
  async function refuse(url: string, env: Record<string, string> = {}): Promise<Ended> {
    const startedAt = performance.now();
    const ended = await place.run({ PORT: '0', DATABASE_URL: url, START_TIMEOUT_MS: '60000', ...env });
    expect(performance.now() - startedAt).toBeLessThan(30_000);
    expect(ended.code).toBe(1);
    expect(linesOf(ended.stderr)).toHaveLength(1);
    return ended;
  }

  it.each([
    ['SQL_ASCII', 'true'],
    ['LATIN1', 'true'],
    ['LATIN1', 'false'],
  ])('if the database has the encoding %s, with MIGRATE=%s', async (encoding, isMigrating) => {
    const database = await place.database();
    const name = `${new URL(database).pathname.slice(1)}_encoded`;
    await onServer(`CREATE DATABASE ${name} TEMPLATE template0 ENCODING '${encoding}' LC_COLLATE 'C' LC_CTYPE 'C'`);
    const { stderr } = await refuse(new URL(name, inject('postgresUrl')).href, { MIGRATE: isMigrating });
    expect(stderr).toContain(`the database has the encoding ${encoding}: create one with UTF8`);
    await onServer(`DROP DATABASE ${name}`);
  });

  it('if the password is wrong', async () => {
    const { url, role } = await createRole(await place.database(), '');
    expect((await refuse(url.replace(':postgres@', ':wrong@'))).stderr).toMatch(/password authentication failed/);
    await onServer(`DROP ROLE ${role}`);
  });

  it.each(['', '127.0.0.1:1,'])('if the database does not exist (other hosts: %s)', async (others) => {
    const { stderr } = await refuse(new URL('absent', inject('postgresUrl')).href.replace('@', `@${others}`));
    expect(stderr).toContain('database "absent" does not exist');
  });

  it('if the role may not create tables, and says how to help it', async () => {
    const database = await place.database({ migrated: false });
    const { url, role } = await createRole(database, '');
    const { stderr } = await refuse(url);
    expect(stderr.match(/permission denied/g)).toHaveLength(1);
    expect(stderr).toContain('GRANT CREATE ON SCHEMA public');
    await onServer(`DROP ROLE ${role}`);
  });

  it('if the tables are those of another role, and says how to help it', async () => {
    const database = await place.database();
    const { url, role } = await createRole(database, '');
    await runSql(database, `GRANT CREATE ON SCHEMA public TO ${role}`);
    expect((await refuse(url)).stderr).toContain('Run npm run migrate as the owner of the tables');
    const { code, stderr } = await place.keys(['list'], { DATABASE_URL: url });
    expect([code, linesOf(stderr)]).toEqual([1, [expect.stringContaining('lacks SELECT on schema_version')]]);
    await runSql(database, `DROP OWNED BY ${role}`);
    await onServer(`DROP ROLE ${role}`);
  });

  describeWith('openssl', 'if the certificate', () => {
    it.each(['require', 'verify-ca', 'verify-full'])('is self-signed, with sslmode=%s', async (mode) => {
      const secureContext = createSecureContext(makeCertificate(place.directory));
      const server = createServer((socket) => {
        socket.on('error', () => undefined);
        // The client asks for TLS, and the server agrees.
        socket.once('data', () => {
          socket.write('S');
          new TLSSocket(socket, { isServer: true, secureContext }).on('error', () => undefined);
        });
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as AddressInfo;
      const { stderr } = await refuse(`postgres://gateway:secret@127.0.0.1:${port}/store?sslmode=${mode}`);
      expect(stderr).toMatch(/self-signed certificate/);
      server.close();
    });
  });
});

describe('a store is served', () => {
  it('from a database at a Unix socket', async () => {
    const database = new URL(await place.database());
    const [row] = (await onServer('SHOW unix_socket_directories')) as { unix_socket_directories: string }[];
    const directory = row?.unix_socket_directories.split(',')[0] as string;
    const { username, password, port, pathname } = database;
    const url = `postgres://${username}:${password}@${pathname}?host=${directory}&port=${port}`;
    const key = await createKey(url);
    const program = await place.start({ PORT: '0', DATABASE_URL: url });
    expect(await program.graphql('{ pets { id } }', key)).toEqual({ data: { pets: [] } });
    await program.stop();
    expect((await place.keys(['list'], { DATABASE_URL: url })).stderr).toBe(
      `keys: the store on ${directory}${pathname}\n`,
    );
  });

  it('by a role that may have fewer connections than the pool', async () => {
    const database = await place.database();
    const key = await createKey(database);
    const { url, role } = await createRole(database, 'CONNECTION LIMIT 3');
    const all = 'SELECT, INSERT, UPDATE, DELETE';
    await runSql(database, `GRANT ${all} ON ALL TABLES IN SCHEMA public TO ${role}`);
    await runSql(database, `GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ${role}`);
    const program = await place.start({ PORT: '0', DATABASE_URL: url, MIGRATE: 'false' });
    const headers = { Authorization: `Bearer ${key}` };
    // More clients than connections, each with one request after the other.
    const statuses = await Promise.all(
      Array.from({ length: 60 }, async (_, n) => {
        const own: number[] = [];
        for (let count = 0; count < 10; count += 1)
          own.push((await program.fetch(`/v1/pets/${60 * count + n + 1}`, { headers })).status);
        return own;
      }),
    );
    expect(new Set(statuses.flat())).toEqual(new Set([404]));
    await program.stop();
    await runSql(database, `DROP OWNED BY ${role}`);
    await onServer(`DROP ROLE ${role}`);
  });

  it.each(['serializable', 'repeatable read'])('if the database isolates transactions as %s', async (isolation) => {
    const database = await place.database();
    const name = new URL(database).pathname.slice(1);
    await onServer(`ALTER DATABASE ${name} SET default_transaction_isolation = '${isolation}'`);
    const key = await createKey(database);
    // Without prepared statements, as behind a pooler, the program cannot set the isolation of its sessions.
    const program = await place.start({ PORT: '0', DATABASE_URL: database, DATABASE_PREPARE: 'false' });
    const add = async (n: number): Promise<number> => {
      const response = await program.fetch('/v1/pets', {
        method: 'POST',
        headers: {
          Authorization: `Bearer ${key}`,
          'Content-Type': 'application/json',
          ...(n % 3 === 0 && { 'Idempotency-Key': `key-${n % 9}` }),
        },
        body: '{"name":"Rex","categoryId":1}',
      });
      return response.status;
    };
    const statuses = await Promise.all(Array.from({ length: 120 }, (_, n) => add(n)));
    // 409: a request with this key is in progress.
    expect(statuses.filter((status) => status !== 201 && status !== 409)).toEqual([]);
    await program.stop();
  });
});
