import Negotiator from 'negotiator';
import { StoreError } from '../errors.js';
import type { RequestContext, Reply } from '../http/request-context.js';
import type { Handler } from '../http/server.js';
import { readAssets } from './assets.js';
import { isLocalOrigin } from './local-origin.js';

export interface ExplorerOptions {
  /** Finds the development key. Undefined if the backend has none. */
  readonly findDevelopmentKey: (() => Promise<string | undefined>) | undefined;
}

const PAGE = '/explorer';
const DEVELOPMENT_KEY = `${PAGE}/development-key`;

/** The page may load its own script and style sheet and send requests to this server. Everything else is forbidden. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // For the editor's icons, which are part of its style sheet.
  'img-src data:',
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Serves the explorer's page and files. A browser on this machine also gets a development key. */
export function createExplorer({ findDevelopmentKey }: ExplorerOptions): Handler {
  let assets: ReturnType<typeof readAssets> | undefined;

  return (context) => {
    context.route = PAGE;
    if (context.path === DEVELOPMENT_KEY) return replyKey(context);
    requireMethod(context, 'GET', 'HEAD');
    return replyAsset(context, context.path === PAGE ? 'index.html' : context.path.slice(PAGE.length + 1));
  };

  async function replyAsset(context: RequestContext, name: string): Promise<Reply> {
    assets ??= readAssets();
    const asset = (await assets).get(name);
    if (asset === undefined)
      throw new StoreError('no_such_route', `There is no such file. The explorer is at ${PAGE}.`);
    const isPage = name === 'index.html';
    const takesGzip = new Negotiator(context.request).encoding(['gzip', 'identity']) === 'gzip';
    return {
      status: 200,
      headers: {
        'Content-Type': asset.mediaType,
        'Cache-Control': isPage ? 'no-cache' : 'public, max-age=31536000, immutable',
        ...(takesGzip && { 'Content-Encoding': 'gzip' }),
        Vary: 'Accept-Encoding, Origin',
        ...(isPage && { 'Content-Security-Policy': POLICY, 'Referrer-Policy': 'no-referrer' }),
      },
      body: takesGzip ? asset.gzip : asset.plain,
    };
  }

  async function replyKey(context: RequestContext): Promise<Reply> {
    requireMethod(context, 'POST');
    const key = isLocalOrigin(context) ? await findDevelopmentKey?.() : undefined;
    const headers = { 'Cache-Control': 'no-store' };
    if (key === undefined) return { status: 204, headers, body: '' };
    return {
      status: 200,
      headers: { ...headers, 'Content-Type': 'application/json; charset=utf-8' },
      body: JSON.stringify({ key }),
    };
  }
}

function requireMethod({ method, path }: RequestContext, ...methods: readonly string[]): void {
  if (methods.includes(method)) return;
  throw new StoreError('method_not_allowed', `${path} takes ${methods.join(' and ')}.`, {
    headers: { Allow: methods.join(', ') },
  });
}
