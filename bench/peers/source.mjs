import { openPostgresSource } from './postgres-source.mjs';
import { openUpstreamSource } from './upstream-source.mjs';

/** The animals behind a peer: `list`, `findMany` and `add`. */
export function openSource() {
  const { DATABASE_URL, UPSTREAM_URL } = process.env;
  return UPSTREAM_URL ? openUpstreamSource(UPSTREAM_URL) : openPostgresSource(DATABASE_URL);
}

export const PORT = Number(process.env.PORT);
export const HOST = '127.0.0.1';
