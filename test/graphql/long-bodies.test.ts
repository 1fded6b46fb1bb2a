import { expect, it } from 'vitest';
import { JsonNumber, parseUntrustedJson } from '../../src/json/exact-json.js';

/** So many characters take the parser that keeps numbers exact too long. */
const PADDING = ' '.repeat(140_000);
const read = (body: string): unknown => parseUntrustedJson(body, 'The request body', 'extensions');

it.each([
  ['white space', '', PADDING],
  ['a string', `"padding":"${'\\"1.0'.repeat(30_000)}",`, ''],
])('a long body keeps every number exact, without parsing slowly what makes it long: %s', (_, start, end) => {
  for (const number of ['9007199254740993', '1.0', '1e0', '-0', '2.5', '9223372036854775807'])
    expect(read(`{${start}"variables":{"id":[${number},7]}}${end}`)).toMatchObject({
      variables: { id: [new JsonNumber(number), 7] },
    });
});

it.each([
  '{"variables":{"limit":"20"},"extensions":{"sampling":0.5}}',
  '[{"extensions":{"trace":12345678901234567890}}]',
])('numbers in the extensions of an operation need no slow parsing: %s', (body) =>
  expect(read(body + PADDING)).toEqual(JSON.parse(body)),
);

it.each([
  ['{"variables":{"ids":[9007199254740993]},', '}'],
  ['{', ',"variables":{"ids":[9007199254740993]}}'],
  ['[{"query":"{ a }"},{"variables":{"ids":[9007199254740993]}, ', ' , "query" : "{ b }" } ]'],
])('numbers in the extensions leave the numbers of variables their room: %s…%s', (start, end) => {
  const numbers = Array.from({ length: 15_000 }, (_, i) => i + 0.5).join();
  for (const extensions of [`{"samples":[${numbers}],"}":"]"}`, `[${numbers}]`, '0.5', '"0.5"', 'null']) {
    const value = read(`${start}"extensions":${extensions}${end}`) as object;
    const operation = Array.isArray(value) ? (value[1] as object) : value;
    expect(operation).toMatchObject({ variables: { ids: [new JsonNumber('9007199254740993')] } });
    expect(operation).toHaveProperty('extensions', JSON.parse(extensions));
  }
});

it('a variable with the name extensions stays exact', () => {
  const exact = new JsonNumber('9007199254740993');
  expect(read('{"variables":{"extensions":9007199254740993}}')).toEqual({ variables: { extensions: exact } });
  expect(read('[{"variables":{"extensions":[9007199254740993]}}]')).toEqual([{ variables: { extensions: [exact] } }]);
  expect(parseUntrustedJson('{"extensions":9007199254740993}', 'variables')).toEqual({ extensions: exact });
});

it('a long body of numbers is refused if JavaScript would round one', () => {
  const numbers = Array.from({ length: 15_000 }, () => 1_234_567_890).join();
  expect(read(`{"variables":{"ids":[${numbers}]}}`)).toHaveProperty('variables.ids.length', 15_000);
  expect(() => read(`{"variables":{"ids":[${numbers},1.5]}}`)).toThrow('send such numbers as strings');
});
