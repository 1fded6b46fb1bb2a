import { expect, it } from 'vitest';
import { toLines } from '../../src/store/transfer.js';

it('splits lines at \\n only, and leaves out one without its end', async () => {
  async function* chunks(): AsyncGenerator<string> {
    yield '{"label":"a\u2028b\u2029c\u0085d\re"}\n{"la';
    await Promise.resolve();
    yield 'bel":null}\n\nend';
  }
  const lines: string[] = [];
  for await (const line of toLines(chunks())) lines.push(line);
  expect(lines).toEqual(['{"label":"a\u2028b\u2029c\u0085d\re"}', '{"label":null}', '']);
});
