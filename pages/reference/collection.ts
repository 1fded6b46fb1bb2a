/** The part of an OpenAPI document that a collection is made of. */
export interface OpenApi {
  readonly info: { readonly title: string; readonly description: string };
  readonly servers: readonly [{ readonly url: string }];
  readonly paths: Readonly<Record<string, Readonly<Record<string, ApiOperation>>>>;
}

interface ApiOperation {
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly ApiParameter[];
  readonly requestBody?: { readonly content: { readonly 'application/json': { readonly example: unknown } } };
}

interface ApiParameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly description: string;
  readonly schema: { readonly default?: string | number; readonly enum?: readonly string[] };
}

/**
 * Makes a collection for Postman and Bruno of an OpenAPI document: a request for each operation, with the address of the
 * store and the key as variables. Parameters that may be left out are there, but turned off.
 * https://schema.postman.com/collection/json/v2.1.0/draft-07/docs/index.html
 */
export function toCollection({ info, servers, paths }: OpenApi): object {
  return {
    info: {
      name: info.title,
      description: info.description,
      schema: 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json',
    },
    auth: { type: 'bearer', bearer: [{ key: 'token', value: '{{apiKey}}', type: 'string' }] },
    variable: [
      { key: 'baseUrl', value: 'http://127.0.0.1:4000' },
      { key: 'apiKey', value: '' },
    ],
    item: Object.entries(paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, operation]) => toItem(servers[0].url + path, method, operation)),
    ),
  };
}

function toItem(openApiPath: string, method: string, operation: ApiOperation): object {
  const { summary, description, parameters = [], requestBody } = operation;
  const path = openApiPath.slice(1).replace(/\{(\w+)\}/g, ':$1');
  const toFields = (place: string): object[] => parameters.filter((one) => one.in === place).map(toField);
  return {
    name: summary,
    request: {
      method: method.toUpperCase(),
      description,
      header: toFields('header'),
      url: {
        raw: `{{baseUrl}}/${path}`,
        host: ['{{baseUrl}}'],
        path: path.split('/'),
        query: toFields('query'),
        variable: toFields('path'),
      },
      ...(requestBody && {
        body: {
          mode: 'raw',
          raw: JSON.stringify(requestBody.content['application/json'].example, null, 2),
          options: { raw: { language: 'json' } },
        },
      }),
    },
  };
}

function toField({ name, required, description, schema }: ApiParameter): object {
  const value = schema.default ?? schema.enum?.[0] ?? (required ? '1' : '');
  return { key: name, value: String(value), description, ...(!required && { disabled: true }) };
}
