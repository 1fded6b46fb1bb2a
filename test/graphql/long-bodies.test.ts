import { expect, it } from 'vitest';
import { JsonNumber, parseUntrustedJson } from '../../src/json/exact-json.js';

const PADDING = ' '.repeat(140_000);
const read = (body: string): unknown => parseUntrustedJson(body, 'The request body');

it.each([
  ['white space', '', PADDING],
  ['a string', `"padding":"${'\\"1.0'.repeat(30_000)}",`, ''],
  ['numbers', `"extensions":{"samples":[${Array.from({ length: 15_000 }, (_, i) => i + 0.5).join()}]},`, ''],
])('a long body keeps every number exact: %s', (_, start, end) => {
  for (const number of ['9007199254740993', '1.0', '1e0', '-0', '2.5', '9223372036854775807'])
    expect(read(`{${start}"variables":{"id":[${number},7]}}${end}`)).toMatchObject({
      variables: { id: [new JsonNumber(number), 7] },
    });
});

it('numbers in strings and keys stay what they are', () => {
  const exact = new JsonNumber('9007199254740993');
  const text = '{"1.5":"2.5","a\\":1.5":[9007199254740993],"extensions":{":1.5":"\\\\"}}';
  expect(read(text)).toEqual({ '1.5': '2.5', 'a":1.5': [exact], extensions: { ':1.5': '\\' } });
});

it('a body with as many inexact numbers as it may hold is read in a moment', () => {
  const numbers = Array.from({ length: 19_000 }, (_, i) => `${i}.${'7'.repeat(40)}`).join();
  const before = process.cpuUsage();
  expect(read(`{"variables":{"ids":[${numbers}]}}`)).toHaveProperty('variables.ids.length', 19_000);
  // The time of this process alone: the machine may be busy.
  expect(process.cpuUsage(before).user).toBeLessThan(250_000);
});
