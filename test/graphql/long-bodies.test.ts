import { expect, it } from 'vitest';
import { parseUntrustedJson } from '../../src/json/exact-json.js';

/** So many characters take the parser that keeps numbers exact too long. */
const PADDING = ' '.repeat(140_000);
const read = (body: string): unknown => parseUntrustedJson(body + PADDING, 'The request body');

it.each([
  '{"variables":{"limit":20},"extensions":{"sampling":0.5}}',
  '[{"extensions":{"trace":12345678901234567890}}]',
])('a long body is read whatever the numbers in its extensions are: %s', (body) =>
  expect(read(body)).toEqual(JSON.parse(body)),
);

it.each(['{"variables":{"id":9007199254740993}}', '{"variables":{"limit":2.5},"extensions":{}}'])(
  'a long body is refused if JavaScript would round a number in it: %s',
  (body) => expect(() => read(body)).toThrow('send such numbers as strings'),
);
