import type { TestProject } from 'vitest/node';
import { startPostgres } from './postgres-cluster.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** A real PostgreSQL server of this test run; every suite makes databases of its own in it. */
    readonly postgresUrl: string;
  }
}

/** Starts the PostgreSQL server of a test run. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startPostgres();
  project.provide('postgresUrl', server.url);
  return () => server.close();
}
