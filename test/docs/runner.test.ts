import { describe, expect, it } from 'vitest';
import { parseDocument, type Block } from './markdown.js';
import { compareHttp, compareJson, compareJsonLines, compareText, parseResponse, type Comparison } from './matching.js';
import { createStandIns } from './stand-ins.js';
import { splitCommands, toSteps } from './steps.js';

const isEqual = ({ expected, actual }: Comparison): boolean => JSON.stringify(expected) === JSON.stringify(actual);
const readBlocks = (text: string): readonly Block[] => parseDocument('test.md', text).blocks;

describe('an answer that is compared with the printed one', () => {
  it.each([
    ['another value', '{"id":"1"}', '{"id":"2"}', []],
    ['a text for a number', '{"id":1}', '{"id":"1"}', []],
    ['an int64 that was rounded', '{"id":9007199254740993}', '{"id":9007199254740992}', []],
    ['a member that is not printed', '{"id":1}', '{"id":1,"name":"Rex"}', []],
    ['a member that did not come', '{"id":1,"name":"Rex"}', '{"id":1}', []],
    ['a list that is longer', '[1]', '[1,2]', []],
    ['another type of what varies', '{"left":5}', '{"left":"many"}', ['left']],
    ['nothing for what varies', '{"left":"5"}', '{"left":null}', ['left']],
    ['other words around digits that vary', '"retry in 60 s"', '"wait for 60 s"', ['"in 60 s"']],
    ['other digits than those that vary', '"3 of 60 s"', '"4 of 60 s"', ['"of 60 s"']],
  ])('differs by %s', (_, expected, actual, varies) => {
    expect(isEqual(compareJson(expected, actual, varies))).toBe(false);
  });

  it.each([
    ['what varies', '{"left":5,"a":1}', '{"a":1,"left":7}', ['left']],
    ['digits that vary', '"retry in 60 s"', '"retry in 59 s"', ['"in 60 s"']],
    ['request ids', '{"requestId":"a"}', '{"requestId":"b"}', []],
    ['what is left out', '{"key":"pets_…"}', '{"key":"pets_abc"}', []],
  ])('may differ by %s', (_, expected, actual, varies) => {
    const comparison = compareJson(expected, actual, varies);
    expect(comparison.actual).toEqual(comparison.expected);
  });

  it('is compared line by line where it is text or lines of JSON', () => {
    expect(isEqual(compareText('Created key_…\nBye', 'Created key_1\n\nBye\n', []))).toBe(true);
    expect(isEqual(compareText('Created key_…', 'Created key_1\nBye', []))).toBe(false);
    expect(isEqual(compareJsonLines('{"a":1}\n{"a":2}', '{"a":1}\n{"a":3}', []))).toBe(false);
  });

  it('is compared by its status, its body and the headers that are printed', () => {
    const response = parseResponse('HTTP/1.1 200 OK\r\nA: 1\r\nRetry-After: 7\r\n\r\n{"id":1}');
    const same = (text: string, varies: string[] = []): boolean => isEqual(compareHttp(text, response, varies));
    expect(same('HTTP/1.1 200 OK\nA: 1\n\n{ "id": 1 }')).toBe(true);
    expect(same('HTTP/1.1 200 OK\nRetry-After: 60\n\n{ "id": 1 }', ['Retry-After'])).toBe(true);
    expect(same('HTTP/1.1 200 OK\nRetry-After: 60\n\n{ "id": 1 }')).toBe(false);
    expect(same('HTTP/1.1 200 OK\nB: 1\n\n{ "id": 1 }', ['B'])).toBe(false);
    expect(same('HTTP/1.1 201 Created\n\n{ "id": 1 }')).toBe(false);
    expect(same('HTTP/1.1 200 OK\n\n{ "id": 2 }')).toBe(false);
  });
});

describe('blocks', () => {
  it('are read with their place and what stands above them', () => {
    const text =
      '# Top\n\n<!-- varies: left, "in 60 s" -->\n\n```json variables\n{}\n```\n\n<!-- varies: lost -->\n\ntext\n\n```sh\nls\n```\n';
    expect(readBlocks(text)).toEqual([
      expect.objectContaining({ line: 6, language: 'json', role: 'variables', varies: ['left', '"in 60 s"'] }),
      expect.objectContaining({ line: 14, language: 'sh', text: 'ls\n', varies: [] }),
    ]);
  });

  it('are put together with their answers, and what answers nothing is a stray', () => {
    const blocks = readBlocks(
      [
        'graphql\n{ a }',
        'json variables\n{}',
        'json\n{}',
        'json\n{}',
        'http\nGET /',
        'http\nHTTP/1.1 200 OK',
        'toml\na=1',
      ]
        .map((text) => `\`\`\`${text}\n\`\`\`\n`)
        .join('\n'),
    );
    expect(toSteps(blocks).map(({ kind, block }) => [kind, block.language])).toEqual([
      ['operation', 'graphql'],
      ['stray', 'json'],
      ['request', 'http'],
      ['stray', 'toml'],
    ]);
    expect(toSteps(blocks)[0]).toMatchObject({ variables: { role: 'variables' }, answer: { language: 'json' } });
  });

  it('of the shell are split into commands', () => {
    const text = "# a comment\nls \\\n  -l # here\n\necho 'a\n# b'\nfalse # exits with 1\n";
    expect(splitCommands({ text, line: 10 })).toEqual([
      { text: 'ls \\\n  -l', line: 11, exitCode: 0 },
      { text: "echo 'a\n# b'", line: 14, exitCode: 0 },
      { text: 'false', line: 16, exitCode: 1 },
    ]);
  });

  it('name servers that others stand for', async () => {
    const standIns = createStandIns({
      redisUrl: 'redis://127.0.0.1:7000',
      createDatabase: () => Promise.resolve('postgres://me@127.0.0.1:5432/mine'),
    });
    const command =
      'DATABASE_URL=postgres://a:b@127.0.0.1:5432/c REDIS_URL=redis://127.0.0.1:6379/0 PORT=4001 npm start';
    const port = await standIns.port(4001);
    expect(await standIns.toHere(command)).toBe(
      `DATABASE_URL=postgres://me@127.0.0.1:5432/mine REDIS_URL=redis://127.0.0.1:7000 PORT=${port} npm start`,
    );
    expect(await standIns.toHere('curl localhost:4001')).toBe(`curl localhost:${port}`);
    expect(standIns.toDocument(`listening on http://127.0.0.1:${port}`)).toBe('listening on http://127.0.0.1:4001');
  });
});
