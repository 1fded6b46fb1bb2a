import { STATUS_CODES } from 'node:http';
import { z } from 'zod';
import { INT64_RULE } from '../pets/int64.js';
import { errorBody, idempotencyHeader, listQuery, lookupPath, newPetBody, petBody, usageQuery } from './schemas.js';

type JsonObject = Record<string, unknown>;

const registry = z.registry<{ id: string }>();
for (const [id, schema] of Object.entries({
  Pet: petBody,
  NewPet: newPetBody,
  Error: errorBody,
  PetStatus: newPetBody.shape.status.unwrap(),
})) {
  registry.add(schema, { id });
}

/**
 * Creates the OpenAPI 3.1 document of /v1 from the schemas that validate the requests.
 * @param canRotate - whether a key may replace its own secret
 */
export function createOpenApiDocument(canRotate: boolean): JsonObject {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Animal Store',
      version: '1.0.0',
      description:
        'Lists animals, adds an animal and gets an animal by its identifier. Every response states the limits of the key. Identifiers are int64: JavaScript rounds those beyond 2^53 unless a client parses them as text or bigint.',
    },
    servers: [{ url: '/v1' }],
    security: [{ apiKey: [] }],
    tags: [
      { name: 'pets', description: 'The animals.' },
      { name: 'key', description: 'The key that sends the request. Free, but at most 60 requests a minute.' },
    ],
    paths: {
      '/pets': {
        get: {
          operationId: 'listPets',
          summary: 'List all animals',
          description: 'The animals, lowest id first. For the next page, pass the id of the last one as `after`.',
          tags: ['pets'],
          parameters: toParameters(listQuery, 'query'),
          responses: {
            200: success(
              'The animals.',
              { type: 'array', items: ref('Pet') },
              [PET, { id: 8, name: 'Flocke', categoryId: 3 }],
              {
                ETag: ETAG,
                Link: header('The next page as `rel="next"`, if this one has as many animals as `limit`.'),
              },
            ),
            304: NOT_MODIFIED,
            ...errors('limit must be a whole number from 1 to 100, got 500.', 401, 406, 429, 500, 503),
          },
        },
        post: {
          operationId: 'createPet',
          summary: 'Add an animal',
          tags: ['pets'],
          parameters: toParameters(idempotencyHeader, 'header'),
          requestBody: { required: true, content: { 'application/json': { schema: ref('NewPet'), example: NEW_PET } } },
          responses: {
            201: success(
              'The animal, with its new identifier.',
              ref('Pet'),
              { id: 9, ...NEW_PET },
              { Location: header('Where the animal can be read.') },
            ),
            ...errors(QUOTED_NUMBER, 401, 403, 406, 413, 415, 422, 429, 500, 503),
          },
        },
      },
      '/pets/{petId}': {
        get: {
          operationId: 'getPet',
          summary: 'Get an animal',
          description: 'Will be removed on 5 December 2030. Use GET /pets with the status filter.',
          deprecated: true,
          tags: ['pets'],
          parameters: toParameters(lookupPath, 'path'),
          responses: {
            200: success('The animal.', ref('Pet'), PET, {
              ETag: ETAG,
              Deprecation: header('Since when the operation is deprecated (RFC 9745).'),
              Sunset: header('When the operation is removed (RFC 8594).'),
              Link: header('The successor.'),
            }),
            304: NOT_MODIFIED,
            ...errors(`petId ${INT64_RULE}, got "seven".`, 401, 404, 406, 429, 500, 503),
          },
        },
      },
      '/key': { get: ofKey('getKey', 'Get what the key may and has left', KEY, TAKES_NONE) },
      '/key/usage': {
        get: {
          ...ofKey('listKeyUsage', 'List what the key has used, the last day first', USAGE, BAD_DAYS),
          parameters: toParameters(usageQuery, 'query'),
        },
      },
      ...(canRotate && {
        '/key/rotate': {
          post: ofKey(
            'rotateKey',
            'Replace the secret; the old one works for 24 hours',
            ROTATED,
            TAKES_NONE,
            409,
            413,
            415,
          ),
        },
      }),
    },
    components: {
      schemas: toComponents(),
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', description: 'Authorization: Bearer <API_KEY>' } },
    },
  };
}

function header(description: string, type: 'string' | 'integer' = 'string'): JsonObject {
  return { description, schema: { type } };
}

const LIMIT_HEADERS = {
  'X-RateLimit-Limit': header('Requests that the tightest window holds.', 'integer'),
  'X-RateLimit-Remaining': header('Requests left in it.', 'integer'),
  'X-RateLimit-Reset': header('When it resets, in Unix seconds.', 'integer'),
  'RateLimit-Policy': header('The windows of the plan.'),
  RateLimit: header('What is left in each of them.'),
};

const ETAG = header('The version of the response, for If-None-Match.');
const NOT_MODIFIED = {
  description: 'The version that If-None-Match names is current.',
  headers: { ...LIMIT_HEADERS, ETag: ETAG },
};

const RETRY_AFTER = { 'Retry-After': header('Seconds to wait before asking again.', 'integer') };

const EXAMPLES: Readonly<Record<number, Readonly<Record<string, string>>>> = {
  401: {
    unauthorized: 'The request has no bearer key: send your API key as "Authorization: Bearer <API_KEY>".',
  },
  403: { forbidden: 'The API key is read-only: it may not add animals.' },
  404: { not_found: 'There is no animal with id 99.' },
  406: { not_acceptable: 'The Accept header must allow application/json, got "text/csv".' },
  409: { rotation_under_way: 'A rotation of this key is under way.' },
  413: { payload_too_large: 'The request body is larger than 1048576 bytes.' },
  415: { unsupported_media_type: 'The Content-Type must be application/json, got "text/plain".' },
  422: { idempotency_key_reused: 'This Idempotency-Key was used for another animal.' },
  429: {
    rate_limited: 'This costs 1, but only 0 of 60 a minute are left. Retry in 10 s.',
    key_banned: 'The key is banned. Retry in 300 s.',
  },
  500: { internal_error: 'Something went wrong on our side.' },
  503: {
    overloaded: 'The store is overloaded. Try again shortly.',
    unavailable: 'The store is temporarily unavailable.',
  },
};

const QUOTED_NUMBER = 'categoryId must be a number such as 42, without quotes, got "1".';
const NEW_PET = { name: 'Daisy', categoryId: 1, status: 'pending' };
const PET = { id: 1, name: 'Bella', categoryId: 1, status: 'available' };

const TIME = '2026-11-21T15:48:38.070Z';
/** Answers with one example for each form. What may be null is null. */
const KEY = {
  id: 'key_oJJTsQRDAhA0',
  plan: 'free',
  label: null,
  readOnly: false,
  createdAt: TIME,
  expiresAt: null,
  previousEndsAt: null,
  lastUsedAt: null,
  limits: { perMinute: 60, perDay: 1_000 },
  secretEndsAt: null,
  windows: [{ name: 'minute', seconds: 60, limit: 60, remaining: 57, resetAt: 1_795_276_150 }],
  canRotate: true,
};
const COUNTS = { requests: 43, cost: 42, errors: 1, refused: 1, deprecatedCalls: 42 };
const USAGE = {
  since: '2026-10-23',
  rows: [{ day: '2026-11-21', client: null, operation: 'ShopWindow', ...COUNTS, deprecated: ['Query.pet'] }],
  isCut: false,
};
const ROTATED = { id: KEY.id, key: 'pets_…', expiresAt: null, previousEndsAt: TIME };

/** @param invalid - the message of the example of a 400 */
function errors(invalid: string, ...others: number[]): JsonObject {
  const examples: typeof EXAMPLES = { ...EXAMPLES, 400: { invalid_request: invalid } };
  return Object.fromEntries(
    [400, ...others].map((status) => {
      const bodies: JsonObject = {};
      for (const [code, message] of Object.entries(examples[status] ?? {})) {
        bodies[code] = { value: { code, message, status } };
      }
      const content = { 'application/json': { schema: ref('Error'), examples: bodies } };
      const headers = status === 429 || status === 503 ? { ...LIMIT_HEADERS, ...RETRY_AFTER } : LIMIT_HEADERS;
      return [status, { description: STATUS_CODES[status], headers, content }];
    }),
  );
}

const TAKES_NONE = 'Unknown parameter "id". This request takes none.';
const BAD_DAYS = 'days must be a whole number from 1 to 366, in plain digits, got "500".';

/** @param statuses - of further errors; without any, the operation is a GET */
function ofKey(
  operationId: string,
  summary: string,
  example: object,
  invalid: string,
  ...statuses: number[]
): JsonObject {
  const isGet = statuses.length === 0;
  const responses = {
    200: success(`${summary}.`, toSchema(example), example, isGet ? { ETag: ETAG } : {}),
    ...(isGet && { 304: NOT_MODIFIED }),
    ...errors(invalid, 401, 406, 429, 500, 503, ...statuses),
  };
  return { operationId, summary, tags: ['key'], responses };
}

/** Returns the schema of what is like an example. Null stands for a text that may be absent. */
function toSchema(example: unknown): JsonObject {
  if (example === null) return { type: ['string', 'null'] };
  if (Array.isArray(example)) return { type: 'array', items: toSchema(example[0]) };
  if (typeof example !== 'object') return { type: typeof example === 'number' ? 'integer' : typeof example };
  const properties = Object.entries(example).map(([name, value]) => [name, toSchema(value)]);
  return { type: 'object', properties: Object.fromEntries(properties) as JsonObject, required: Object.keys(example) };
}

function success(description: string, schema: JsonObject, example: unknown, headers: JsonObject): JsonObject {
  return {
    description,
    headers: { ...LIMIT_HEADERS, ...headers },
    content: { 'application/json': { schema, example } },
  };
}

function ref(name: string): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

function toComponents(): JsonObject {
  const { schemas } = z.toJSONSchema(registry, {
    io: 'input',
    unrepresentable: 'any',
    uri: (id) => `#/components/schemas/${id}`,
  });
  return Object.fromEntries(Object.entries(schemas).map(([id, schema]) => [id, withoutIdentity(schema)]));
}

function toParameters(schema: z.ZodObject, place: 'query' | 'path' | 'header'): JsonObject[] {
  return Object.entries(schema.shape).map(([name, field]) => {
    // As what validation returns, because an integer is a text in a request.
    const { description, ...rest } = withoutIdentity(z.toJSONSchema(field, { unrepresentable: 'any' }));
    return { name, in: place, required: place === 'path', description, schema: rest };
  });
}

/** Removes the identifiers that Zod adds. OpenAPI refers to a component by its location. */
function withoutIdentity({ $schema: _schema, $id: _id, id: _name, ...schema }: JsonObject): JsonObject {
  return schema;
}
