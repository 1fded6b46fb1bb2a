import { randomBytes, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { StoreError } from '../errors.js';
import { prefersHtml } from '../http/media-type.js';
import { REVALIDATED } from '../http/conditional.js';
import type { Reply } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';
import type { Page } from '../http/face.js';

export interface PagesOptions {
  readonly version: string;
  /** True for a store, which also serves REST. */
  readonly isStore: boolean;
  readonly hasSchema: boolean;
  readonly newKeyCommand: string;
  /** Finds the development keys by plan. Undefined if the backend has none. */
  readonly findDevelopmentKeys: (() => Promise<object | undefined>) | undefined;
}

/** Here, the build writes the pages and their files. */
const FOLDER = new URL('../../dist/public/', import.meta.url);
const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
};
const IMMUTABLE = { 'Cache-Control': 'public, max-age=31536000, immutable', Vary: 'Accept-Encoding, Origin' };
const KEYS_PATH = '/explorer/development-keys';
const FIRST_DOCUMENT = '/docs/README';
const JSON_TYPE = 'application/json; charset=utf-8';
const SCHEMA = new URL('../../schema/animal-store.graphql', import.meta.url);

/** A page may load its own scripts and style sheets and send requests to this server. Everything else is forbidden. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // For icons, which are part of the style sheets.
  'img-src data:',
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const PAGE_HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  ...REVALIDATED,
  'Content-Security-Policy': POLICY,
  'Referrer-Policy': 'no-referrer',
};

export function createPages(options: PagesOptions) {
  const { isStore, hasSchema, findDevelopmentKeys } = options;
  const description = describeServer(options);
  const sdl = hasSchema ? textReply('text/plain; charset=utf-8', readFileSync(SCHEMA, 'utf8')) : undefined;
  let token = findDevelopmentKeys && randomBytes(16).toString('base64url');
  let files: Promise<ReadonlyMap<string, Buffer>> | undefined;

  async function getFile(name: string): Promise<Buffer> {
    const file = (await (files ??= readFiles())).get(name);
    if (file) return file;
    throw new StoreError('no_such_route', `There is no such page. The documents begin at ${FIRST_DOCUMENT}.`);
  }

  async function replyAsset({ path }: HttpRequest): Promise<Reply> {
    const mediaType = MEDIA_TYPES[extname(path)] ?? 'application/octet-stream';
    return { status: 200, headers: { 'Content-Type': mediaType, ...IMMUTABLE }, body: await getFile(path.slice(1)) };
  }

  async function replyPage(name: string, fill = (html: string) => html): Promise<Reply> {
    return { status: 200, headers: PAGE_HEADERS, body: fill(String(await getFile(name))) };
  }

  function replyFront(context: HttpRequest): Promise<Reply> | Reply {
    if (!prefersHtml(context, [JSON_TYPE])) return textReply(JSON_TYPE, JSON.stringify(description));
    return replyPage('index.html', (html) => renderFrontPage(html, description));
  }

  /** Exchanges the token for the development keys, once. */
  async function replyKeys(context: HttpRequest): Promise<Reply> {
    const sent = Buffer.from(context.header('authorization') ?? '');
    const expected = Buffer.from(`Bearer ${token ?? ''}`);
    if (token === undefined || sent.length !== expected.length || !timingSafeEqual(sent, expected)) {
      const reason = 'This address has been used already. Start the server again for a new one.';
      throw new StoreError('unauthorized', reason, { headers: { 'WWW-Authenticate': 'Bearer realm="animal-store"' } });
    }
    token = undefined;
    const body = JSON.stringify((await findDevelopmentKeys?.()) ?? {});
    return { status: 200, headers: { 'Content-Type': JSON_TYPE, 'Cache-Control': 'no-store' }, body };
  }

  function findAnswer(path: string): Page['handle'] | undefined {
    if (path === '/') return replyFront;
    if (path.startsWith('/docs/')) return () => replyPage(`${path.slice(1)}.html`);
    if (path === '/explorer') return () => replyPage('explorer.html');
    if (path === '/reference' && isStore) return () => replyPage('reference.html');
    if (path === '/schema.graphql') return sdl && (() => sdl);
    return path.startsWith('/assets/') ? replyAsset : undefined;
  }

  return {
    /** The fragment of the explorer's address, with which it fetches the development keys once. Empty without keys. */
    tokenFragment: token === undefined ? '' : `#token=${token}`,
    /** Returns undefined for any other path. */
    findPage: ({ path }: HttpRequest): Page | undefined => {
      const isForKeys = path === KEYS_PATH;
      const handle = isForKeys ? replyKeys : findAnswer(path);
      if (!handle) return undefined;
      return {
        name: /^\/(?:assets|docs)(?=\/)/.exec(path)?.[0] ?? path,
        handle,
        ...(isForKeys && { methods: ['POST'] }),
      };
    },
  };
}

async function readFiles(): Promise<ReadonlyMap<string, Buffer>> {
  const paths = await readdir(FOLDER, { recursive: true });
  const names = paths.filter((path) => extname(path) !== '').map((path) => path.replaceAll('\\', '/'));
  const files = names.map(async (name) => [name, await readFile(new URL(name, FOLDER))] as const);
  return new Map(await Promise.all(files));
}

function textReply(mediaType: string, body: string): Reply {
  return { status: 200, headers: { 'Content-Type': mediaType, ...REVALIDATED }, body };
}

/** Describes the server at `GET /`: to browsers as a page, to other clients as JSON. */
function describeServer({ version, isStore, hasSchema, newKeyCommand }: PagesOptions) {
  const links = [
    link('explorer', '/explorer', 'Explorer', 'Write and run GraphQL operations, with the documentation beside them.'),
    link('graphql', '/graphql', 'Apollo Sandbox', "Apollo's explorer, which a browser loads from Apollo's servers."),
    isStore && link('reference', '/reference', 'REST reference', 'Every REST operation, with examples to try.'),
    isStore && link('openapi', '/v1/openapi.json', 'OpenAPI document', 'The REST interface for code generators.'),
    hasSchema && link('schema', '/schema.graphql', 'GraphQL schema', 'The schema for code generators and editors.'),
    link('health', '/readyz', 'Health', 'Whether the server can answer requests.'),
    link('documentation', FIRST_DOCUMENT, 'Documentation', 'Guides, limits, errors, clients and operation.'),
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
    links: links.filter((one) => one !== false),
  };
}

function link(rel: string, href: string, title: string, description: string) {
  return { rel, href, title, description };
}

/** Fills in the front page that the build made. Links on this server become relative, so that a path prefix works. */
function renderFrontPage(
  html: string,
  { version, description, newKeyCommand, links }: ReturnType<typeof describeServer>,
): string {
  const items = links.map(
    ({ href, title, description: text }) =>
      `<li><a href="${href.replace(/^\//, '')}">${title}</a><span>${text}</span></li>`,
  );
  const keyHint =
    newKeyCommand === undefined
      ? 'Keys come from the store behind this gateway.'
      : `In development, a new embedded store prints its keys. To create a key: <code>${newKeyCommand}</code>`;
  const parts: Readonly<Record<string, string>> = { version, description, keyHint, links: items.join('\n') };
  return html.replace(/\{\{(\w+)\}\}/g, (_, name: string) => parts[name] ?? '');
}
