import { randomBytes, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { StoreError } from '../errors.js';
import { prefersHtml } from '../http/media-type.js';
import { REVALIDATED } from '../http/conditional.js';
import type { Page } from '../http/route.js';
import { PAGE_HEADERS } from '../http/page.js';
import { JSON_TYPE, jsonReply, type Reply } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';

export interface PagesOptions {
  /** Whether the pages are served, except for the page of a key. */
  readonly explorer: boolean;
  readonly keyPage: boolean;
  readonly version: string;
  /** True for a store, which also serves REST. */
  readonly isStore: boolean;
  readonly hasSchema: boolean;
  readonly hasMcp: boolean;
  readonly newKeyCommand: string;
  /** Undefined if the backend has none. */
  readonly findDevelopmentKeys: (() => Promise<object | undefined>) | undefined;
}

const FOLDER = new URL('../../dist/public/', import.meta.url);
const DOCUMENT = /^\/docs\/[\w-]+$/;
const ASSET = /^\/assets\/[\w-]+\.(?:css|js)$/;
const SCHEMA = '../../schema/animal-store.graphql';
const FOR_MODELS = '../../docs/llms.txt';
const KEYS_PATH = '/explorer/development-keys';
const IMMUTABLE = { 'Cache-Control': 'public, max-age=31536000, immutable' };

const HEADERS: Readonly<Record<string, Record<string, string>>> = {
  '.css': { 'Content-Type': 'text/css; charset=utf-8', ...IMMUTABLE },
  '.js': { 'Content-Type': 'text/javascript; charset=utf-8', ...IMMUTABLE },
  '.json': { 'Content-Type': JSON_TYPE, ...REVALIDATED },
  '.txt': { 'Content-Type': 'text/plain; charset=utf-8', ...REVALIDATED },
  '.graphql': { 'Content-Type': 'text/plain; charset=utf-8', ...REVALIDATED },
  '.html': {
    ...PAGE_HEADERS,
    ...REVALIDATED,
    // Only scripts and styles of this server, with icons in them, and requests to it.
    'Content-Security-Policy':
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  },
};

export function createPages(options: PagesOptions) {
  const { explorer, keyPage, isStore, hasMcp, hasSchema, findDevelopmentKeys } = options;
  const description = describeServer(options);
  let token = explorer && findDevelopmentKeys ? randomBytes(16).toString('base64url') : undefined;
  const handlers: Readonly<Record<string, Page['handle'] | false>> = {
    '/key': keyPage && replyPage,
    ...(explorer && {
      '/': replyFront,
      '/explorer': replyPage,
      [KEYS_PATH]: replyKeys,
      '/reference': isStore && replyPage,
      '/collection.json': isStore && replyPage,
      '/schema.graphql': hasSchema && ((request) => replyFile(request, SCHEMA)),
      '/llms.txt': (request) => replyFile(request, FOR_MODELS, nameInterfaces),
    }),
  };

  function replyFront(context: HttpRequest): Promise<Reply> | Reply {
    if (prefersHtml(context, [JSON_TYPE])) return replyFile(context, 'index.html', (html) => fillIn(html, description));
    return jsonReply(200, JSON.stringify(description), REVALIDATED);
  }

  /** Exchanges the token for the development keys, once. */
  async function replyKeys(context: HttpRequest): Promise<Reply> {
    const sent = Buffer.from(context.header('authorization') ?? '');
    const expected = Buffer.from(`Bearer ${token ?? ''}`);
    if (token === undefined || sent.length !== expected.length || !timingSafeEqual(sent, expected)) {
      const reason = 'The token is not valid. Each start of the server prints a new one, which works once.';
      throw new StoreError('unauthorized', reason, { headers: { 'WWW-Authenticate': 'Bearer realm="animal-store"' } });
    }
    token = undefined;
    return jsonReply(200, JSON.stringify((await findDevelopmentKeys?.()) ?? {}), { 'Cache-Control': 'no-store' });
  }

  /** Leaves out the interfaces that this server does not have. */
  function nameInterfaces(text: string): string {
    const withRest = isStore ? text : text.replace(/^- \[REST\].*\n/m, '');
    return hasMcp ? withRest : withRest.replace(/^- \[MCP\].*\n/m, '');
  }

  return {
    /** The fragment of the explorer's address, with which it fetches the development keys once. */
    tokenFragment: token === undefined ? '' : `#token=${token}`,
    /** Returns undefined for any other path. */
    findPage: ({ path }: HttpRequest): Page | undefined => {
      const isFile = ASSET.test(path) || (explorer && DOCUMENT.test(path));
      const handle = isFile ? replyPage : handlers[path];
      if (!handle) return undefined;
      const name = /^\/(?:assets|docs)(?=\/)/.exec(path)?.[0] ?? path;
      return { name, handle, methods: [path === KEYS_PATH ? 'POST' : 'GET'] };
    },
  };
}

function replyPage(request: HttpRequest): Promise<Reply> | Reply {
  const { path, search, message } = request;
  // The addresses in a page are relative to the path without a slash.
  if (message.url?.split('?')[0]?.endsWith('/'))
    return { status: 308, headers: { Location: `../${basename(path)}${search}` }, body: '' };
  return replyFile(request, path.slice(1) + (extname(path) === '' ? '.html' : ''));
}

/** The port in the examples. In a browser, a script replaces the whole address. */
const DEFAULT_PORT = /(?<=http:\/\/(?:127\.0\.0\.1|localhost):)4000/g;

async function replyFile(request: HttpRequest, name: string, fill = (text: string) => text): Promise<Reply> {
  const text = await readFile(new URL(name, FOLDER), 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new StoreError('no_such_route', 'There is no such page. The documents begin at /docs/README.');
  });
  const type = extname(name);
  const hasNoScript = type === '.json' || (type === '.html' && !prefersHtml(request, [JSON_TYPE]));
  const named = hasNoScript ? text.replaceAll(DEFAULT_PORT, String(request.message.socket.localPort)) : text;
  return { status: 200, headers: { ...HEADERS[type] }, body: fill(named) };
}

function describeServer({ version, keyPage, isStore, hasSchema, newKeyCommand }: PagesOptions) {
  const links = [
    { rel: 'explorer', href: '/explorer', title: 'GraphQL explorer' },
    { rel: 'graphql', href: '/graphql', title: "Apollo Sandbox, from Apollo's servers" },
    isStore && { rel: 'reference', href: '/reference', title: 'REST reference' },
    isStore && { rel: 'openapi', href: '/v1/openapi.json', title: 'OpenAPI document of the REST interface' },
    keyPage && { rel: 'key', href: '/key', title: 'What your key may, has left and has used' },
    hasSchema && { rel: 'schema', href: '/schema.graphql', title: 'GraphQL schema' },
    { rel: 'health', href: '/readyz', title: 'Health of the server' },
    { rel: 'documentation', href: '/docs/README', title: 'Documentation' },
  ];
  return {
    name: 'Animal store gateway',
    version,
    kind: isStore ? 'store' : 'gateway',
    description: isStore
      ? 'This server is an animal store. It serves the same animals over GraphQL and REST.'
      : 'This server is a gateway. It serves the animals of another store over GraphQL.',
    // The keys of a gateway belong to the store behind it.
    newKeyCommand: isStore ? newKeyCommand : undefined,
    links: links.filter((link) => link !== false),
  };
}

/** Links on this server become relative, so that a path prefix works. */
function fillIn(html: string, { links, ...parts }: ReturnType<typeof describeServer>): string {
  const items = links.map(({ href, title }) => `<li><a href="${href.slice(1)}">${title}</a></li>`);
  const command = parts.newKeyCommand && `To create a key: <code>${parts.newKeyCommand}</code>`;
  const keyHint = command ?? 'Keys come from the store behind this gateway.';
  const all: Record<string, unknown> = { ...parts, keyHint, links: items.join('') };
  return html.replace(/\{\{(\w+)\}\}/g, (_, name: string) => String(all[name]));
}
