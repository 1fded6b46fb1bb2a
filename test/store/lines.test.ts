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

it('refuses a file without lines, such as one of zeros, before it is read to its end', async () => {
  let read = 0;
  async function* zeros(): AsyncGenerator<string> {
    for (; read < 1_000; read++) yield await Promise.resolve('\0'.repeat(65_536));
  }
  await expect(toLines(zeros()).next()).rejects.toThrow('this is no export of an animal store: a line is too long');
  expect(read).toBeLessThan(300);
});
