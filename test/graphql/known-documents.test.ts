import { expect, it } from 'vitest';
import { readBodyRequest } from '../../src/graphql/request.js';
import type { OperationRequest } from '../../src/graphql/types.js';
import type { HttpRequest } from '../../src/http/request.js';

const FIELDS = Array.from({ length: 60 }, (_, index) => `pet${index}: pet(id: "${index}") { id name }`).join('\n');
const QUERY = `query Pets($é: String = "\\"\\u00e9") {\n${FIELDS}\n}`;

/** Long documents that have come before are not parsed again. */
const read = (body: string) =>
  readBodyRequest({ body: Buffer.from(body) } as unknown as HttpRequest, { maxBatch: 20 } as never);

function reasonOf(body: string): string {
  try {
    read(body);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('the body was accepted');
}

/** As Apollo Client, urql and graphql-request order the members. */
const toBodies = (variables: object, query: string) => [
  JSON.stringify({ operationName: 'Pets', variables, query }),
  JSON.stringify({ operationName: 'Pets', query, variables }),
  JSON.stringify({ query, variables, operationName: 'Pets' }),
];

it('reads a known document with its own variables each time', () => {
  for (const query of [QUERY, `${QUERY} # other`, QUERY]) {
    for (const value of ['a', 'é"\\', '"query":"x"', 'a'.repeat(2_000)]) {
      for (const body of toBodies({ value, query: 'inner' }, query)) {
        for (const _ of [1, 2]) {
          const { query: found, variables, operationName } = read(body) as OperationRequest;
          expect(found).toBe(query);
          expect({ variables, operationName }).toEqual({ variables: { value, query: 'inner' }, operationName: 'Pets' });
        }
      }
    }
  }
});

it('is not deceived by another place of a known document', () => {
  const [known] = toBodies({}, QUERY);
  read(known as string);
  const inner = { variables: { query: QUERY }, query: '{ pets { id } }' };
  expect(read(JSON.stringify(inner))).toMatchObject(inner);
  const named = `{"\\"query":${JSON.stringify(QUERY)},"query":"{ pets { id } }"}`;
  expect(read(named)).toMatchObject({ query: '{ pets { id } }' });
  expect(reasonOf(`{"\\"query":${JSON.stringify(QUERY)}}`)).toContain('has no query');
});

it.each([
  ['a key twice', ',"query":"{ a }"}', 'the same key twice'],
  ['no end', ',"x":', 'Unexpected end of JSON input'],
  ['another token', ',"x":nope}', 'Unexpected token'],
  ['text after the end', '}}', /position \d+/],
])('refuses a known document with %s, by its place in the whole body', (_, end, reason) => {
  const body = JSON.stringify({ query: QUERY }).slice(0, -1) + end;
  const first = reasonOf(body.replace('Pets', 'Dogs'));
  read(JSON.stringify({ query: QUERY }));
  expect(reasonOf(body)).toBe(first);
  expect(first).toMatch(reason);
});
