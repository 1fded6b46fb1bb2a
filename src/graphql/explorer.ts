import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { StoreError } from '../errors.js';
import type { Reply } from '../http/exchange.js';
import type { Handler } from '../http/server.js';

/** Made by the build out of GraphiQL, so that the page needs nothing but this server. */
const PAGE = new URL('../../dist/explorer.html', import.meta.url);

/** Serves the offline explorer. */
export function createExplorer(): Handler {
  let reply: Reply | undefined;
  return (exchange) => {
    exchange.route = '/explorer';
    if (exchange.method !== 'GET' && exchange.method !== 'HEAD') {
      throw new StoreError('method_not_allowed', '/explorer takes GET.', { headers: { Allow: 'GET, HEAD' } });
    }
    return (reply ??= toReply(readFileSync(PAGE, 'utf8')));
  };
}

function toReply(page: string): Reply {
  const policy = [
    "default-src 'none'",
    `script-src ${hashScripts(page).join(' ')}`,
    // The editor writes style elements and attributes as it goes.
    "style-src 'unsafe-inline'",
    'img-src data:',
    'font-src data:',
    "connect-src 'self'",
    'worker-src blob:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return {
    status: 200,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': policy.join('; '),
      'Referrer-Policy': 'no-referrer',
    },
    body: page,
  };
}

/** Names the page's own scripts by what they say, so that no other can run. */
function hashScripts(page: string): string[] {
  return [...page.matchAll(/<script>(.*?)<\/script>/gs)].map(
    ([, script = '']) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`,
  );
}
