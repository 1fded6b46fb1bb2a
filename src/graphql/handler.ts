import { rethrowUnlessBanned, type Access, type Session } from '../access/session.js';
import { StoreError, toStoreError } from '../errors.js';
import type { Cors } from '../http/cors.js';
import { requireUnambiguousHeaders, type Reply, type RequestContext } from '../http/request-context.js';
import { createMediaTypeChooser, prefersHtml } from '../http/media-type.js';
import { REVALIDATED } from '../http/representation.js';
import { logFailures, type Handler } from '../http/server.js';
import type { Log } from '../observability/log.js';
import type { Execute } from './execute.js';
import type { OperationRecorder } from './operation-recorder.js';
import { Refusal } from './refusal.js';
import { readBodyRequest, readGetRequest, type RequestLimits } from './request.js';
import { toBatchReply, toReply, writeRefusal, type OperationResponse } from './response.js';

export interface GraphqlHandlerOptions {
  readonly execute: Execute;
  readonly recorder: OperationRecorder;
  readonly access: Access;
  readonly cors: Cors;
  readonly log: Log;
  /** Whether introspection needs no key. */
  readonly openIntrospection: boolean;
  /** Renders the page for browsers; absent: there is none. */
  readonly renderLandingPage?: ((search: string) => Promise<string>) | undefined;
  readonly limits: RequestLimits;
}

/** The media types of https://http-spec.graphql.org/September2026/#sec-Media-Types, the default first. */
const MEDIA_TYPES = ['application/json; charset=utf-8', 'application/graphql-response+json; charset=utf-8'] as const;
/** https://www.rfc-editor.org/rfc/rfc10008#name-the-accept-query-header-fie */
const SAFE_METHOD_HEADERS = { ...REVALIDATED, 'Accept-Query': 'application/json' };
/** Other sites may not show the page in a frame, or learn which page a visitor came from. */
const PAGE_HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'strict-origin-when-cross-origin',
  'Cross-Origin-Opener-Policy': 'same-origin-allow-popups',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  'Cache-Control': 'no-store',
  // In addition to the policy in the page, which names Apollo's CDN and the nonce of its own scripts.
  'Content-Security-Policy': "frame-ancestors 'none'; form-action 'none'; object-src 'none'",
};

/** Makes the handler of /graphql. */
export function createGraphqlHandler(options: GraphqlHandlerOptions): Handler {
  const { execute, recorder, access, cors, log, openIntrospection, renderLandingPage, limits } = options;
  const chooseMediaType = createMediaTypeChooser(MEDIA_TYPES);
  const toErrorReply = createGraphqlErrorReply();

  return async (context) => {
    context.route = '/graphql';
    let session: Session;
    try {
      session = await access.open(context.header('authorization'), context.client.network, context.span);
    } catch (thrown) {
      return refuse(context, thrown);
    }
    context.logged.keyId = session.keyId;
    if (session.isKeyAccepted && session.keyId) context.identify(session.keyId);
    let reply: Reply;
    try {
      reply = await answer(context, session);
    } catch (thrown) {
      reply = refuse(context, thrown);
      recorder.recordRefusal(toStoreError(thrown), context, session.keyId);
    }
    session.close();
    const windows = (await session.allowance())?.windows;
    const headers = context.method === 'POST' ? reply.headers : { ...SAFE_METHOD_HEADERS, ...reply.headers };
    return { status: reply.status, headers, body: reply.body, windows };
  };

  async function answer(context: RequestContext, session: Session): Promise<Reply> {
    const { method } = context;
    requireUnambiguousHeaders(context.request);
    if (cors.isPreflight(context)) return { status: 204, headers: cors.preflightHeaders(context), body: '' };
    const isGet = method === 'GET' || method === 'HEAD';
    if (!isGet && method !== 'POST' && method !== 'QUERY') {
      throw new StoreError('method_not_allowed', '/graphql takes GET, HEAD, POST and QUERY.', {
        headers: { Allow: 'GET, HEAD, POST, QUERY' },
      });
    }
    if (renderLandingPage && prefersHtml(context, MEDIA_TYPES)) {
      return { status: 200, headers: PAGE_HEADERS, body: await renderLandingPage(context.search) };
    }
    if (session.keyId || session.isKeyRefused || !openIntrospection) await session.requireKey();
    const { mediaType, isBatch, operations } = await read(context, isGet).catch(rethrowUnlessBanned(session));
    const responses = await execute(operations, context, session);
    if (!isBatch) return toReply(responses[0] as OperationResponse, mediaType);
    // The upstream may have refused the key only now.
    if (session.isKeyRefused && !responses.some(({ hasData }) => hasData)) await session.requireKey();
    return toBatchReply(responses, mediaType);
  }

  async function read(context: RequestContext, isGet: boolean) {
    const mediaType = chooseMediaType(context.header('accept'));
    return { mediaType, ...(isGet ? readGetRequest(context) : await readBodyRequest(context, limits)) };
  }

  function refuse(context: RequestContext, thrown: unknown): Reply {
    const error = toStoreError(thrown);
    logFailures(log, [error], context);
    return toErrorReply(context, error);
  }
}

/** Makes the function that refuses a request as a whole. */
export function createGraphqlErrorReply() {
  const chooseMediaType = createMediaTypeChooser(MEDIA_TYPES);
  return (context: RequestContext, error: StoreError): Reply => {
    let mediaType: string = MEDIA_TYPES[0];
    try {
      mediaType = chooseMediaType(context.header('accept'));
    } catch {
      // The default is for a client that accepts none of them.
    }
    return toReply(writeRefusal(Refusal.of(error), context.requestId), mediaType);
  };
}
