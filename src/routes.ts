import { chain, type MaybePromise } from './access/maybe-promise.js';
import type { Access, Session } from './access/session.js';
import { StoreError, toStoreError } from './errors.js';
import { CONTINUE, createBodyReader, discardBody, UNREAD_MS } from './http/body.js';
import { REVALIDATED } from './http/conditional.js';
import type { Cors } from './http/cors.js';
import type { Api, Page, Route } from './http/route.js';
import type { FairQueue } from './http/fair-queue.js';
import { toErrorPage } from './http/page.js';
import type { RoutedReply, Reply } from './http/reply.js';
import { requireValidHead, type HttpRequest } from './http/request.js';

export interface RoutesOptions {
  readonly access: Access;
  readonly cors: Cors;
  readonly apis: readonly Api[];
  /** Returns undefined for a path that is not its own. */
  readonly pages: readonly ((request: HttpRequest) => Page | undefined)[];
  readonly maxBodyBytes: number;
  readonly takeTurn: FairQueue<Reply>;
}

type Task = () => MaybePromise<Reply>;

/** Answers every request: route → session → body → queue → handler. A reply to an error takes the place of the rest. */
export function createRoutes(options: RoutesOptions): (request: HttpRequest) => Promise<RoutedReply> {
  const { access, cors, apis, pages, maxBodyBytes, takeTurn } = options;
  const readBody = createBodyReader(maxBodyBytes, takeTurn);
  const roots = new Intl.ListFormat('en-GB').format(apis.map(({ root }) => root));
  const hint = roots && ` The interfaces are at ${roots}.`;

  return (request) => {
    for (const find of pages) {
      const page = find(request);
      if (page) return answerPage(request, page);
    }
    const api = apis.find(({ root }) => request.path === root || request.path.startsWith(`${root}/`));
    return api ? answerApi(request, api) : refusePath(request);
  };

  /** Discards a body that is not needed. If that takes work, the caller's next requests wait. */
  function discard({ message, caller }: HttpRequest): void {
    discardBody(message, () => void chargeUnread(caller));
  }

  async function chargeUnread(caller: string): Promise<void> {
    try {
      await takeTurn(caller, () => CONTINUE, UNREAD_MS);
    } catch {
      // Enough of them wait already.
    }
  }

  async function refusePath(request: HttpRequest): Promise<RoutedReply> {
    discard(request);
    const error = new StoreError('no_such_route', `There is no such path.${hint}`);
    return { reply: await takeTurn(request.caller, () => toErrorPage(request, error)), route: 'other' };
  }

  async function answerPage(request: HttpRequest, page: Page): Promise<RoutedReply> {
    discard(request);
    const { name, methods = ['GET'], isProbe, isLimited, handle } = page;
    const caller = isProbe ? `probes of ${request.caller}` : request.caller;
    let reply: Reply;
    try {
      reply = await takeTurn(
        caller,
        () => {
          if (cors.isPreflight(request)) return allow(request);
          requireValidHead(request.message);
          requireMethod(request, methods);
          return handle(request);
        },
        0,
        isProbe,
      );
    } catch (thrown) {
      reply = toErrorPage(request, toStoreError(thrown));
    }
    const session = isLimited ? await access.open(undefined, request.client.network) : undefined;
    const allowance = await session?.allowance();
    return { reply, route: name, windows: allowance?.windows };
  }

  async function answerApi(request: HttpRequest, api: Api): Promise<RoutedReply> {
    const route = api.findRoute(request.path);
    const name = route?.name ?? 'other';
    let session: Session | undefined;
    let task: Task;
    let isRefused = false;
    try {
      const opened = openSession(request, route);
      session = opened instanceof Promise ? await opened : opened;
      request.key = session.upstreamKey;
      if (session.isKeyAccepted && session.keyId !== undefined) request.caller = session.keyId;
      const prepared = prepare(request, route, session);
      task = prepared instanceof Promise ? await prepared : prepared;
    } catch (thrown) {
      isRefused = true;
      discard(request);
      task = () => {
        // A preflight needs neither a route nor a session, which no request has while the store starts.
        if (cors.isPreflight(request)) return allow(request);
        throw thrown;
      };
    }
    let reply: Reply;
    try {
      // A refusal takes its turn, too, unless its client has left.
      const answered = isRefused && request.isCancelled ? task() : takeTurn(request.caller, task, request.readingMs);
      reply = answered instanceof Promise ? await answered : answered;
    } catch (thrown) {
      const failure = toStoreError(thrown);
      reply = api.toErrorReply((await session?.explain(failure)) ?? failure, request);
    }
    session?.close?.();
    const allowance = session?.allowance();
    const { windows } = (allowance instanceof Promise ? await allowance : allowance) ?? {};
    return { reply: addHeaders(reply, request, route), route: name, windows, keyId: session?.keyId };
  }

  function allow(request: HttpRequest): Reply {
    requireValidHead(request.message);
    return { status: 204, headers: cors.preflightHeaders(request), body: '' };
  }

  function openSession(request: HttpRequest, route: Route | undefined): MaybePromise<Session> {
    const { network } = request.client;
    const opened = access.open(request.header('authorization'), network);
    return route?.isPublic && opened instanceof Promise ? opened.catch(() => access.open(undefined, network)) : opened;
  }

  /** Returns what is left to do when it is the request's turn. */
  function prepare(request: HttpRequest, route: Route | undefined, session: Session): MaybePromise<Task> {
    requireValidHead(request.message);
    if (!route) throw new StoreError('no_such_route', 'There is no such path.');
    requireMethod(request, route.methods);
    route.checkHead?.(request);
    const hasBody = request.method === 'POST' || request.method === 'QUERY';
    const required = route.requiresKey(session) ? session.requireKey() : undefined;
    const ready = chain(required, () => (hasBody ? readBody(request) : undefined));
    return chain(ready, () => {
      if (!hasBody) discard(request);
      return () => route.handle(request, session);
    });
  }
}

function addHeaders(reply: Reply, { method }: HttpRequest, route: Route | undefined): Reply {
  const readHeaders = method === 'POST' ? undefined : { ...REVALIDATED, ...route?.readHeaders };
  if (!readHeaders && !route?.headers) return reply;
  return { ...reply, headers: { ...readHeaders, ...route?.headers, ...reply.headers } };
}

function requireMethod({ method }: HttpRequest, methods: readonly string[]): void {
  if (methods.includes(method === 'HEAD' ? 'GET' : method)) return;
  const Allow = methods.map((name) => (name === 'GET' ? 'GET, HEAD' : name)).join(', ');
  throw new StoreError('method_not_allowed', `This path accepts ${Allow}.`, { headers: { Allow } });
}
