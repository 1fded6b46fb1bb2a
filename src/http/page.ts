import { STATUS_CODES } from 'node:http';
import type { StoreError } from '../errors.js';
import { prefersHtml } from './media-type.js';
import { JSON_TYPE, toErrorReply, type Reply } from './reply.js';
import type { HttpRequest } from './request.js';

/** Other sites may not show a page in a frame, or learn where a visitor came from. */
export const PAGE_HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  'Referrer-Policy': 'no-referrer',
  'X-Frame-Options': 'DENY',
};

const NO_CONTENT = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Gives a browser a page with a title and a sentence. Other clients get the reply as it is. */
export function toPage(request: HttpRequest, reply: Reply, sentence: string, title = toTitle(reply.status)): Reply {
  if (!prefersHtml(request, [JSON_TYPE])) return { ...reply, headers: { ...reply.headers, Vary: 'Accept' } };
  const body = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>${escape(title)}</title>
<main>
<h1>${escape(title)}</h1>
<p>${escape(sentence)}</p>
</main>
</html>
`;
  return {
    ...reply,
    headers: { ...reply.headers, ...PAGE_HEADERS, 'Content-Security-Policy': NO_CONTENT, Vary: 'Accept' },
    body,
  };
}

/** Returns the reply to an error: a page for a browser, otherwise an Error body. */
export function toErrorPage(request: HttpRequest, error: StoreError): Reply {
  return toPage(request, toErrorReply(error), error.message);
}

function toTitle(status: number): string {
  return `${status} ${STATUS_CODES[status] ?? ''}`;
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
