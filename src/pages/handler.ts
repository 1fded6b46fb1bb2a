import { randomBytes, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import Negotiator from 'negotiator';
import { StoreError } from '../errors.js';
import { prefersHtml } from '../http/media-type.js';
import { REVALIDATED } from '../http/representation.js';
import type { RequestContext, Reply } from '../http/request-context.js';
import type { Handler } from '../http/server.js';
import { readAssets } from './assets.js';
import { describeServer, renderDocumentPage, renderFrontPage, type DescribedServer } from './description.js';
import { findDocument, FIRST_DOCUMENT } from './documents.js';

export interface PagesOptions extends DescribedServer {
  /** Finds the development keys by plan. Undefined if the backend has none. */
  readonly findDevelopmentKeys: (() => Promise<object | undefined>) | undefined;
}

const KEYS_PATH = '/explorer/development-keys';
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

/** Creates the handler of the front page, the explorer, the REST reference and the schema. */
export function createPages(options: PagesOptions) {
  const { isStore, hasSchema, findDevelopmentKeys } = options;
  const description = describeServer(options);
  const renderFront = (html: string): string => renderFrontPage(html, description);
  const frontPageAsJson = text(JSON_TYPE, JSON.stringify(description));
  const sdl = hasSchema ? text('text/plain; charset=utf-8', readFileSync(SCHEMA, 'utf8')) : undefined;
  let token = findDevelopmentKeys && randomBytes(16).toString('base64url');
  let assets: ReturnType<typeof readAssets> | undefined;

  /** Reads the files once. After a failure, the next request tries again. */
  async function findAsset(name: string) {
    assets ??= readAssets().catch((error: unknown) => {
      assets = undefined;
      throw error;
    });
    return (await assets).get(name);
  }

  async function replyFile(context: RequestContext): Promise<Reply> {
    const asset = await findAsset(context.path.slice(1));
    if (asset === undefined) throw new StoreError('no_such_route', 'There is no such file. The pages are listed at /.');
    const takesGzip = new Negotiator(context.request).encoding(['gzip', 'identity']) === 'gzip';
    return {
      status: 200,
      headers: {
        'Content-Type': asset.mediaType,
        'Cache-Control': 'public, max-age=31536000, immutable',
        ...(takesGzip && { 'Content-Encoding': 'gzip' }),
        Vary: 'Accept-Encoding, Origin',
      },
      body: takesGzip ? asset.gzip : asset.plain,
    };
  }

  async function replyDocument({ path }: RequestContext): Promise<Reply> {
    const document = await findDocument(path);
    if (!document) throw new StoreError('no_such_route', `There is no such document. They begin at ${FIRST_DOCUMENT}.`);
    return replyPage('document.html', (html) => renderDocumentPage(html, document));
  }

  async function replyPage(name: string, fill = (html: string) => html): Promise<Reply> {
    const html = Buffer.from((await findAsset(name))?.plain ?? '').toString();
    return {
      status: 200,
      headers: {
        'Content-Type': 'text/html; charset=utf-8',
        ...REVALIDATED,
        'Content-Security-Policy': POLICY,
        'Referrer-Policy': 'no-referrer',
      },
      body: fill(html),
    };
  }

  /** Exchanges the token for the development keys, once. */
  async function replyKeys(context: RequestContext): Promise<Reply> {
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

  function findAnswer(path: string): Handler | undefined {
    if (path === '/')
      return (context) => (prefersHtml(context, [JSON_TYPE]) ? replyPage('index.html', renderFront) : frontPageAsJson);
    if (path.startsWith('/docs/')) return replyDocument;
    if (path === '/explorer') return () => replyPage('explorer.html');
    if (path === '/reference' && isStore) return () => replyPage('reference.html');
    if (path === '/schema.graphql') return sdl && (() => sdl);
    return path.startsWith('/assets/') ? replyFile : undefined;
  }

  return {
    /** The fragment of the explorer's address, with which it fetches the development keys once. Empty without keys. */
    tokenFragment: token === undefined ? '' : `#token=${token}`,
    /** Answers a request for a page or one of its files. Returns undefined for any other path. */
    handle: (context: RequestContext): Promise<Reply> | Reply | undefined => {
      const { path, method } = context;
      const isForKeys = path === KEYS_PATH;
      const answer = isForKeys ? replyKeys : findAnswer(path);
      if (!answer) return undefined;
      context.route = /^\/(?:assets|docs)(?=\/)/.exec(path)?.[0] ?? path;
      const methods = isForKeys ? ['POST'] : ['GET', 'HEAD'];
      if (methods.includes(method)) return answer(context);
      const headers = { Allow: methods.join(', ') };
      throw new StoreError('method_not_allowed', `${path} takes ${methods.join(' and ')}.`, { headers });
    },
  };
}

function text(mediaType: string, body: string): Reply {
  return { status: 200, headers: { 'Content-Type': mediaType, ...REVALIDATED }, body };
}
