import { readFileSync } from 'node:fs';
import type { Reply } from '../http/exchange.js';

/** Made by the build out of GraphiQL, so that the page needs nothing but this server. */
const PAGE = new URL('../../dist/explorer.html', import.meta.url);

const HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy':
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; font-src data:; connect-src 'self'; worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
};

/** Serves the offline explorer. */
export function createExplorer(): () => Reply {
  let body: string | undefined;
  return () => ({ status: 200, headers: HEADERS, body: (body ??= readFileSync(PAGE, 'utf8')) });
}
