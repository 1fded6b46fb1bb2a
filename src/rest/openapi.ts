import { z } from 'zod';
import { errorBody, idempotencyHeader, listQuery, lookupPath, newPetBody, petBody, problemBody } from './schemas.js';

type JsonObject = Record<string, unknown>;

const registry = z.registry<{ id: string }>();
for (const [id, schema] of Object.entries({
  Pet: petBody,
  NewPet: newPetBody,
  Error: errorBody,
  Problem: problemBody,
  PetStatus: newPetBody.shape.status.unwrap(),
})) {
  registry.add(schema, { id });
}

/** Creates the OpenAPI 3.1 document of /v1 from the schemas that validate the requests. */
export function createOpenApiDocument(): JsonObject {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Animal Store',
      version: '1.0.0',
      description:
        'Lists animals, adds an animal, reads one animal by identifier. Every answer carries the limits of the key that asked.',
    },
    servers: [{ url: '/v1' }],
    security: [{ apiKey: [] }],
    tags: [{ name: 'pets', description: 'The animals.' }],
    paths: {
      '/pets': {
        get: {
          operationId: 'listPets',
          summary: 'List all animals',
          description: 'The animals, lowest id first. There is no paging.',
          tags: ['pets'],
          parameters: toParameters(listQuery, 'query'),
          responses: {
            200: {
              ...json('The animals.', { type: 'array', items: ref('Pet') }),
              headers: { ...LIMIT_HEADERS, ETag: ETAG },
            },
            304: NOT_MODIFIED,
            ...errors(400, 401, 406, 429, 500, 503),
          },
        },
        post: {
          operationId: 'createPet',
          summary: 'Add an animal',
          tags: ['pets'],
          parameters: toParameters(idempotencyHeader, 'header'),
          requestBody: { required: true, content: { 'application/json': { schema: ref('NewPet') } } },
          responses: {
            201: {
              ...json('The animal, with its new identifier.', ref('Pet')),
              headers: { ...LIMIT_HEADERS, Location: header('Where the animal can be read.', { type: 'string' }) },
            },
            ...errors(400, 401, 406, 413, 415, 422, 429, 500, 503),
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
            200: {
              ...json('The animal.', ref('Pet')),
              headers: {
                ...LIMIT_HEADERS,
                ETag: ETAG,
                Deprecation: header('Since when the operation is deprecated (RFC 9745).', { type: 'string' }),
                Sunset: header('When the operation is removed (RFC 8594).', { type: 'string' }),
                Link: header('The successor.', { type: 'string' }),
              },
            },
            304: NOT_MODIFIED,
            ...errors(400, 401, 404, 406, 429, 500, 503),
          },
        },
      },
    },
    components: {
      schemas: toComponents(),
      securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', description: 'Authorization: Bearer <API_KEY>' } },
    },
  };
}

function header(description: string, schema: JsonObject): JsonObject {
  return { description, schema };
}

const LIMIT_HEADERS = {
  'X-RateLimit-Limit': header('Requests that the tightest window holds.', { type: 'integer' }),
  'X-RateLimit-Remaining': header('Requests left in it.', { type: 'integer' }),
  'X-RateLimit-Reset': header('When it resets, in Unix seconds.', { type: 'integer' }),
  'RateLimit-Policy': header('The windows of the plan.', { type: 'string' }),
  RateLimit: header('What is left in each of them.', { type: 'string' }),
};

const ETAG = header('The version of the response, for If-None-Match.', { type: 'string' });
const NOT_MODIFIED = {
  description: 'The version that If-None-Match names is current.',
  headers: { ...LIMIT_HEADERS, ETag: ETAG },
};

const RETRY_AFTER = { 'Retry-After': header('Seconds to wait before asking again.', { type: 'integer' }) };

const REASONS: Readonly<Record<number, string>> = {
  400: 'The request lacks something or has an invalid value.',
  401: 'The API key is missing or invalid.',
  404: 'There is no such animal.',
  406: 'The Accept header does not allow JSON.',
  413: 'The body is too large.',
  415: 'The body is not JSON.',
  422: 'The Idempotency-Key was sent with another body within the last 24 hours.',
  429: 'The rate limit is exceeded, or the key is banned; retry after the time in Retry-After.',
  500: 'Something went wrong on the side of the store.',
  503: 'The store cannot answer just now.',
};

function errors(...statuses: number[]): JsonObject {
  return Object.fromEntries(
    statuses.map((status) => {
      const response = json(REASONS[status] as string, ref('Error'));
      Object.assign(response.content as JsonObject, { 'application/problem+json': { schema: ref('Problem') } });
      return [status, status === 429 ? { ...response, headers: { ...LIMIT_HEADERS, ...RETRY_AFTER } } : response];
    }),
  );
}

function json(description: string, schema: JsonObject): JsonObject {
  return { description, headers: LIMIT_HEADERS, content: { 'application/json': { schema } } };
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
    const { description, ...rest } = withoutIdentity(z.toJSONSchema(field, { io: 'input', unrepresentable: 'any' }));
    // Zod omits the default of a transformed field, because it does not have the type of the input.
    const fallback = (field as z.ZodType).meta()?.default;
    return { name, in: place, required: place === 'path', description, schema: { ...rest, default: fallback } };
  });
}

/** Removes the identifiers that Zod adds. OpenAPI refers to a component by its location. */
function withoutIdentity({ $schema: _schema, $id: _id, id: _name, ...schema }: JsonObject): JsonObject {
  return schema;
}
