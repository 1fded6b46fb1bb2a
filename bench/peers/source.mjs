import { openPostgresSource } from './sources/postgres.mjs';
import { openUpstreamSource } from './sources/upstream.mjs';

/** The animals that the harness points a peer to: `list`, `find`, `findMany` and `add`. */
export function openSource() {
  const { DATABASE_URL, UPSTREAM_URL } = process.env;
  return UPSTREAM_URL ? openUpstreamSource(UPSTREAM_URL) : openPostgresSource(DATABASE_URL);
}

export const PORT = Number(process.env.PORT);
export const HOST = '127.0.0.1';
