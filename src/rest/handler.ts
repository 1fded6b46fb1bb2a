import { rethrowUnlessBanned, type Session } from '../access/session.js';
import { NO_ROUTE, outcomeOf } from '../access/usage.js';
import type { Backend } from '../backend.js';
import { StoreError, toStoreError } from '../errors.js';
import { readJsonBody } from '../http/body.js';
import type { Cors } from '../http/cors.js';
import { requireUnambiguousHeaders, type Reply, type RequestContext } from '../http/request-context.js';
import { toErrorReply } from '../http/reply.js';
import { createMediaTypeChooser } from '../http/media-type.js';
import { REVALIDATED } from '../http/representation.js';
import { logFailures, type Handler } from '../http/server.js';
import type { Log } from '../observability/log.js';
import { parseIdempotencyKey } from '../pets/idempotency-key.js';
import { LOOKUP_DEPRECATED_SINCE, LOOKUP_SUNSET, notFound, type Pet } from '../pets/pet.js';
import type { Call } from '../pets/pet-source.js';
import { createOpenApiDocument } from './openapi.js';
import { listQuery, lookupPath, newPetBody, noQuery, parseInput } from './schemas.js';

export interface RestOptions extends Pick<Backend, 'source' | 'access' | 'usage'> {
  readonly cors: Cors;
  readonly log: Log;
  readonly maxBodyBytes: number;
}

/** One operation of the interface: validates the request, uncharged, and returns the function to run. */
type Operation = (context: RequestContext, petId: string, keyId: string | undefined) => Promise<Run> | Run;

type Run = (call: Call) => Promise<Reply>;

interface Route {
  readonly name: string;
  readonly pattern: RegExp;
  /** By method. The OpenAPI document needs no key and costs nothing. */
  readonly operations: Readonly<Record<string, Operation | 'document'>>;
}

const JSON_TYPE = 'application/json; charset=utf-8';
const MEDIA_TYPES = [JSON_TYPE] as const;

const LOOKUP_ROUTE = '/v1/pets/{petId}';
/** The headers of every response of the deprecated endpoint: RFC 9745, RFC 8594, RFC 8288. */
const LOOKUP_HEADERS = {
  Deprecation: `@${LOOKUP_DEPRECATED_SINCE.getTime() / 1_000}`,
  Sunset: LOOKUP_SUNSET.toUTCString(),
  Link: '</v1/pets>; rel="successor-version"',
};

/** Makes the handler of everything below /v1. */
export function createRestHandler(options: RestOptions): Handler {
  const { source, access, usage, cors, log, maxBodyBytes } = options;
  const chooseMediaType = createMediaTypeChooser(MEDIA_TYPES);
  const openApi = JSON.stringify(createOpenApiDocument());

  const list: Operation = ({ search }) => {
    const query = parseInput(listQuery, toParameters(search));
    return async (call) => jsonReply(200, `[${(await source.list(query, call)).map(formatPet).join(',')}]`);
  };

  const add: Operation = async (context, _petId, keyId) => {
    parseInput(noQuery, toParameters(context.search));
    const key = parseIdempotencyKey(context.header('idempotency-key'), keyId);
    const body = await readJsonBody(context, maxBodyBytes, '{"name": "Rex", "categoryId": 1}');
    const newPet = parseInput(newPetBody, body);
    return async (call) => {
      const pet = await source.add(newPet, call, key);
      return jsonReply(201, formatPet(pet), { Location: `/v1/pets/${pet.id}` });
    };
  };

  const lookup: Operation = ({ search }, petId) => {
    parseInput(noQuery, toParameters(search));
    const { petId: id } = parseInput(lookupPath, { petId });
    return async (call) => {
      const [pet] = await source.findMany([id], call);
      if (pet instanceof Error) throw pet;
      if (pet === undefined) throw notFound(id);
      return jsonReply(200, formatPet(pet));
    };
  };

  const routes: readonly Route[] = [
    { name: '/v1/pets', pattern: /^\/v1\/pets$/, operations: { GET: list, POST: add } },
    { name: LOOKUP_ROUTE, pattern: /^\/v1\/pets\/([^/]+)$/, operations: { GET: lookup } },
    { name: '/v1/openapi.json', pattern: /^\/v1\/openapi\.json$/, operations: { GET: 'document' } },
  ];

  return async (context) => {
    const route = routes.find(({ pattern }) => pattern.test(context.path));
    if (route) context.route = route.name;
    const headers = {
      ...(route?.name === LOOKUP_ROUTE && LOOKUP_HEADERS),
      ...(context.method !== 'POST' && REVALIDATED),
    };
    let session: Session | undefined;
    let reply: Reply | StoreError;
    try {
      session = await openSession(context, route);
      reply = await answer(context, session, route);
    } catch (thrown) {
      reply = toStoreError(thrown);
    }
    const windows = (await session?.allowance())?.windows;
    if (reply instanceof StoreError) logFailures(log, [reply], context);
    count(context, route, reply);
    const sent = reply instanceof StoreError ? toErrorReply(reply) : reply;
    return { ...sent, headers: { ...headers, ...sent.headers }, windows };
  };

  async function openSession(context: RequestContext, route: Route | undefined): Promise<Session> {
    const open = (authorization?: string) => access.open(authorization, context.client.network);
    let session: Session;
    try {
      session = await open(context.header('authorization'));
    } catch (thrown) {
      if (route?.operations.GET !== 'document') throw thrown;
      // While keys cannot be looked up, a client gets the document as if it had sent none.
      session = await open();
    }
    context.logged.keyId = session.keyId;
    return session;
  }

  async function answer(context: RequestContext, session: Session, route: Route | undefined): Promise<Reply> {
    const { path, method } = context;
    requireUnambiguousHeaders(context.request);
    if (!route) throw new StoreError('no_such_route', 'There is no such path. /v1/openapi.json lists all paths.');
    if (cors.isPreflight(context)) return { status: 204, headers: cors.preflightHeaders(context), body: '' };
    const operation = route.operations[method === 'HEAD' ? 'GET' : method];
    if (!operation) throw methodNotAllowed(Object.keys(route.operations));
    if (operation === 'document') {
      chooseMediaType(context.header('accept'));
      return jsonReply(200, openApi);
    }
    await session.requireKey();
    const prepare = async (): Promise<Run> => {
      chooseMediaType(context.header('accept'));
      return operation(context, decodePath(route.pattern.exec(path)?.[1] ?? ''), session.keyId);
    };
    const run = await prepare().catch(rethrowUnlessBanned(session));
    await session.admit(1);
    context.logged.cost = 1;
    if (route.name === LOOKUP_ROUTE) Object.assign(context.logged, { deprecated: true, client: context.clientName });
    return run(context);
  }

  function count(
    { method, clientName: client, logged }: RequestContext,
    route: Route | undefined,
    reply: Reply | StoreError,
  ): void {
    const { keyId, deprecated, cost = 0 } = logged;
    if (keyId === undefined) return;
    const name = method === 'HEAD' ? 'GET' : method;
    const operation = route?.operations[name] ? `${name} ${route.name}` : NO_ROUTE;
    const outcome = reply instanceof StoreError ? outcomeOf(true, [reply]) : 'ok';
    usage?.count({ keyId, client, operation, deprecated: deprecated ? operation : '', cost, outcome });
  }
}

function methodNotAllowed(methods: readonly string[]): StoreError {
  const allowed = methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ');
  return new StoreError('method_not_allowed', `This path accepts ${allowed}.`, { headers: { Allow: allowed } });
}

/** Parses a query string. Refuses a repeated parameter. */
function toParameters(search: string): Record<string, string> {
  const parameters = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(search)) {
    if (parameters.has(name)) {
      const shown = JSON.stringify(name.slice(0, 60));
      throw new StoreError('invalid_request', `The query has the parameter ${shown} twice.`);
    }
    parameters.set(name, value);
  }
  return Object.fromEntries(parameters);
}

function decodePath(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new StoreError('invalid_request', 'The path is not validly percent-encoded.');
  }
}

function jsonReply(status: number, body: string, headers: Record<string, string> = {}): Reply {
  return { status, headers: { 'Content-Type': JSON_TYPE, ...headers }, body };
}

/** Formats an animal as JSON. JSON.stringify would write its identifiers as strings. */
function formatPet({ id, name, categoryId, status }: Pet): string {
  const rest = status === undefined ? '' : `,"status":"${status}"`;
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${rest}}`;
}
