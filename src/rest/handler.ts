import type { Session } from '../access/session.js';
import { outcomeOf, type UsageCounter } from '../access/usage.js';
import { StoreError, toStoreError } from '../errors.js';
import { parseJsonBody } from '../http/body.js';
import { createMediaTypeChooser } from '../http/media-type.js';
import { JSON_TYPE, toErrorReply, type Reply } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';
import { parseIdempotencyKey } from '../pets/idempotency-key.js';
import { LOOKUP_DEPRECATED_SINCE, LOOKUP_SUNSET, notFound, type Pet } from '../pets/pet.js';
import type { Call, PetSource } from '../pets/pet-source.js';
import type { Face, Route } from '../http/face.js';
import { createOpenApiDocument } from './openapi.js';
import { listQuery, lookupPath, newPetBody, noQuery, parseInput, quote } from './schemas.js';

export interface RestOptions {
  readonly source: PetSource;
  readonly usage?: UsageCounter;
}

/** Validates a request, uncharged, and returns what to run. */
type Operation = (request: HttpRequest, session: Session) => (call: Call) => Promise<Reply>;

const LOOKUP_PATH = /^\/v1\/pets\/([^/]+)$/;
/** RFC 9745, RFC 8594, RFC 8288. */
const LOOKUP_HEADERS = {
  Deprecation: `@${LOOKUP_DEPRECATED_SINCE.getTime() / 1_000}`,
  Sunset: LOOKUP_SUNSET.toUTCString(),
  Link: '</v1/pets>; rel="successor-version"',
};

export function createRest({ source, usage }: RestOptions): Face {
  const requireJson = createMediaTypeChooser([JSON_TYPE]);
  const openApi = jsonReply(200, JSON.stringify(createOpenApiDocument()));

  const list: Operation = ({ search }) => {
    const query = parseInput(listQuery, toParameters(search));
    return async (call) => jsonReply(200, `[${(await source.list(query, call)).map(formatPet).join(',')}]`);
  };

  const add: Operation = (request, { keyId }) => {
    parseInput(noQuery, toParameters(request.search));
    const key = parseIdempotencyKey(request.header('idempotency-key'), keyId);
    const newPet = parseInput(newPetBody, parseJsonBody(request, '{"name": "Rex", "categoryId": 1}'));
    return async (call) => {
      const pet = await source.add(newPet, call, key);
      return jsonReply(201, formatPet(pet), { Location: `/v1/pets/${pet.id}` });
    };
  };

  const lookup: Operation = ({ path, search }) => {
    parseInput(noQuery, toParameters(search));
    const { petId: id } = parseInput(lookupPath, { petId: decodePath(LOOKUP_PATH.exec(path)?.[1] ?? '') });
    return async (call) => {
      const [pet] = await source.findMany([id], call);
      if (pet instanceof Error) throw pet;
      if (pet === undefined) throw notFound(id);
      return jsonReply(200, formatPet(pet));
    };
  };

  const petsRoute = toRoute('/v1/pets', { GET: list, POST: add });
  const lookupRoute = { ...toRoute('/v1/pets/{petId}', { GET: lookup }, true), headers: LOOKUP_HEADERS };
  const openApiRoute: Route = {
    name: '/v1/openapi.json',
    methods: ['GET'],
    requiresKey: () => false,
    isPublic: true,
    handle(request) {
      requireJson(request.header('accept'));
      return openApi;
    },
  };

  return {
    root: '/v1',
    findRoute(path) {
      if (path === petsRoute.name) return petsRoute;
      if (path === openApiRoute.name) return openApiRoute;
      return LOOKUP_PATH.test(path) ? lookupRoute : undefined;
    },
    toErrorReply,
  };

  function toRoute(name: string, operations: Readonly<Record<string, Operation>>, deprecated?: boolean): Route {
    return {
      name,
      methods: Object.keys(operations),
      requiresKey: () => true,
      async handle(request, session) {
        const { clientName: client } = request;
        const method = request.method === 'HEAD' ? 'GET' : request.method;
        const operation = `${method} ${name}`;
        let cost = 0;
        let reply: Reply;
        try {
          requireJson(request.header('accept'));
          const run = (operations[method] as Operation)(request, session);
          await session.admit(1);
          cost = 1;
          reply = await run(request);
        } catch (thrown) {
          reply = toErrorReply(toStoreError(thrown));
        }
        const [error] = reply.failures ?? [];
        const isDeprecated = deprecated && cost > 0;
        usage?.count({
          keyId: session.keyId as string,
          client,
          operation,
          deprecated: isDeprecated ? operation : '',
          cost,
          outcome: outcomeOf(error !== undefined, reply.failures ?? []),
        });
        if (error && cost === 0) throw error;
        return { ...reply, logged: { cost, ...(isDeprecated && { deprecated, client }) } };
      },
    };
  }
}

function toParameters(search: string): Record<string, string> {
  const parameters = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(search)) {
    if (parameters.has(name))
      throw new StoreError('invalid_request', `The query has the parameter ${quote(name)} twice.`);
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
