import { readFileSync } from 'node:fs';
import { parseBearer } from '../access/api-key.js';
import type { OwnKeys } from '../access/own-keys.js';
import { keyReadOnly } from '../access/refusals.js';
import type { RateLimitGuard, Session } from '../access/session.js';
import { outcomeOf, type UsageCounter } from '../access/usage.js';
import { toUnixSeconds } from '../clock.js';
import { StoreError, toStoreError } from '../errors.js';
import { createMediaTypeChooser } from '../http/media-type.js';
import { JSON_TYPE, jsonReply, toErrorReply, type Reply } from '../http/reply.js';
import type { HttpRequest } from '../http/request.js';
import { parseJsonBody } from '../json/exact-json.js';
import { parseIdempotencyKey } from '../pets/idempotency-key.js';
import { parseInt64 } from '../pets/int64.js';
import type { Pet, PetQuery } from '../pets/pet.js';
import { findLookupRefusal, LOOKUP_DEPRECATED_SINCE, LOOKUP_SUNSET, type Brownout } from '../pets/removal.js';
import { pickPet, type Call, type PetSource } from '../pets/pet-source.js';
import type { Api, Route } from '../http/route.js';
import { emptyBody, listQuery, newPetBody, noQuery, parseInput, parseQuery, usageQuery } from './schemas.js';

export interface RestOptions {
  readonly source: PetSource;
  readonly usage?: UsageCounter;
  readonly ownKeys: OwnKeys;
  readonly guardRateLimit: RateLimitGuard;
  readonly keySelfRotation: boolean;
}

/** Validates a request, uncharged, and returns what to run. */
type Endpoint = (request: HttpRequest, session: Session) => (call: Call) => Promise<Reply>;

const MAX_ROWS = 2_000;
const DAY_MS = 86_400_000;
const LOOKUP_PATH = /^\/v1\/pets\/([^/]+)$/;

export function createRest(
  { source, usage, ownKeys, guardRateLimit, keySelfRotation }: RestOptions,
  brownouts: readonly Brownout[] = [],
): Api {
  const requireJson = createMediaTypeChooser([JSON_TYPE]);
  const text = readFileSync(new URL('../../schema/openapi.json', import.meta.url), 'utf8');
  const document = JSON.parse(text) as { readonly paths: Record<string, object> };
  if (!keySelfRotation) delete document.paths['/key/rotate'];
  const openApi = jsonReply(200, JSON.stringify(document));

  const list: Endpoint = ({ search }) => {
    const query = parseQuery(listQuery, search);
    return async (call) => {
      const pets = await source.list(query, call);
      return jsonReply(200, `[${pets.map(formatPet).join(',')}]`, linkNext(query, pets[query.limit - 1]));
    };
  };

  const add: Endpoint = (request, { keyId, readOnly }) => {
    if (readOnly) throw keyReadOnly();
    parseQuery(noQuery, request.search);
    const key = parseIdempotencyKey(request.header('idempotency-key'), keyId);
    const newPet = parseInput(newPetBody, parseJsonBody(request.body, '{"name": "Rex", "categoryId": 1}'));
    return async (call) => {
      const pet = await source.add(newPet, call, key);
      return jsonReply(201, formatPet(pet), { Location: `/v1/pets/${pet.id}` });
    };
  };

  const lookup: Endpoint = ({ path, search }) => {
    const refusal = findLookupRefusal(brownouts);
    if (refusal !== undefined) throw new StoreError('no_such_route', `There is no such path. ${refusal}`);
    parseQuery(noQuery, search);
    const id = parseInt64(LOOKUP_PATH.exec(path)?.[1] as string, 'id');
    return async (call) => {
      const found = await source.findMany([id], call);
      return jsonReply(200, formatPet(pickPet(found, id)));
    };
  };

  const showKey: Endpoint = (request, session) => {
    parseQuery(noQuery, request.search);
    return async () => {
      const allowance = await session.allowance();
      const windows = allowance?.windows.map((window) => ({ ...window, resetAt: toUnixSeconds(window.resetAt) }));
      const key = await ownKeys.find(secretOf(request));
      return jsonReply(200, JSON.stringify({ ...key, windows, canRotate: keySelfRotation }));
    };
  };

  const listUsage: Endpoint = ({ search }, { keyId }) => {
    const { days } = parseQuery(usageQuery, search);
    const since = new Date((Math.floor(Date.now() / DAY_MS) - days + 1) * DAY_MS);
    return async () => {
      const rows = await ownKeys.listUsage(keyId as string, since, MAX_ROWS + 1);
      const answer = { since: since.toISOString().slice(0, 10), rows: rows.slice(0, MAX_ROWS) };
      return jsonReply(200, JSON.stringify({ ...answer, isCut: rows.length > MAX_ROWS }));
    };
  };

  const rotateKey: Endpoint = (request) => {
    parseQuery(noQuery, request.search);
    if (request.body.length > 0) parseInput(emptyBody, parseJsonBody(request.body, '{}'));
    return async () =>
      jsonReply(200, JSON.stringify(await ownKeys.rotate(secretOf(request))), { 'Cache-Control': 'no-store' });
  };

  const lookupRoute: Route = {
    ...toRoute('/v1/pets/{petId}', { GET: lookup }, 1, true),
    /** RFC 9745, RFC 8594, RFC 8288. */
    headers: {
      Deprecation: `@${LOOKUP_DEPRECATED_SINCE.getTime() / 1_000}`,
      Sunset: LOOKUP_SUNSET.toUTCString(),
      Link: '</v1/pets>; rel="successor-version"',
    },
  };
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

  const routes = [
    toRoute('/v1/pets', { GET: list, POST: add }),
    openApiRoute,
    toRoute('/v1/key', { GET: showKey }, 0),
    toRoute('/v1/key/usage', { GET: listUsage }, 0),
    keySelfRotation && toRoute('/v1/key/rotate', { POST: rotateKey }, 0),
  ].filter((route) => route !== false);

  return {
    root: '/v1',
    findRoute: (path) => routes.find(({ name }) => name === path) ?? (LOOKUP_PATH.test(path) ? lookupRoute : undefined),
    toErrorReply,
  };

  /** @param price - in requests */
  function toRoute(
    name: string,
    operations: Readonly<Record<string, Endpoint>>,
    price: 0 | 1 = 1,
    deprecated?: boolean,
  ): Route {
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
          const run = (operations[method] as Endpoint)(request, session);
          // At no cost, this finds the ban of a key.
          await session.admit(price);
          if (price === 0) await guardRateLimit(session);
          cost = price;
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

function secretOf(request: HttpRequest): string {
  return parseBearer(request.header('authorization')) as string;
}

/**
 * Links a full page to the next one: https://www.rfc-editor.org/rfc/rfc8288
 * @param last - the last animal of a full page
 */
function linkNext({ limit, status }: PetQuery, last: Pet | undefined): Record<string, string> | undefined {
  if (!last) return undefined;
  const filter = status === undefined ? '' : `&status=${status}`;
  return { Link: `</v1/pets?limit=${limit}${filter}&after=${last.id}>; rel="next"` };
}

/** Formats an animal as JSON. JSON.stringify would write its identifiers as strings. */
function formatPet({ id, name, categoryId, status }: Pet): string {
  const rest = status === undefined ? '' : `,"status":"${status}"`;
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${rest}}`;
}
