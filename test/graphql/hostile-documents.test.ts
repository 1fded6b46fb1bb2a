import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';

describe('documents that mean harm', () => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway('server');
    ({ key } = await gateway.createKey());
    await gateway.graphql('{ __typename }', { key });
    gateway.statements.length = 0;
  });
  afterAll(() => gateway.close());

  const nested = (depth: number) => `{ ${'...{ '.repeat(depth)}__typename ${'}'.repeat(depth)} }`;

  it.each([
    ['nested inline fragments', nested(2_900)],
    ['fragments nested far deeper', nested(50_000)],
    ['a nested list type', `query($a: ${'['.repeat(3_000)}Int${']'.repeat(3_000)}) { __typename }`],
    ['a nested list value', `{ pets(limit: ${'['.repeat(20_000)}1${']'.repeat(20_000)}) { id } }`],
    ['backslashes and unclosed strings', '"\\'.repeat(200_000)],
    ['unclosed block strings', '\\"""\n'.repeat(100_000)],
    ['one unclosed string', `"${'a'.repeat(900_000)}`],
    ['comments without end', '#{'.repeat(200_000)],
    ['a hundred thousand fields', `{ ${'pets { id } '.repeat(30_000)} }`],
    ['a fragment that spreads itself', '{ ...A } fragment A on Query { ...A }'],
  ])('such as %s are refused with a 400, without a query to the database', async (_, document) => {
    const { status, errors, data } = await gateway.graphql(document, { key });
    expect(status).toBe(400);
    expect(data).toBeUndefined();
    expect(errors?.length).toBeGreaterThan(0);
    expect(gateway.statements).toEqual([]);
    expect(gateway.logged.filter(({ level }) => Number(level) >= 50)).toEqual([]);
  });

  it('leave the process to its other clients: a megabyte takes no longer in proportion than a tenth of it', async () => {
    const timed = async (length: number) => {
      const startedAt = performance.now();
      await gateway.graphql('"\\'.repeat(length), { key });
      return performance.now() - startedAt;
    };
    await timed(1_000);
    const tenth = await timed(20_000);
    expect(await timed(200_000)).toBeLessThan(30 * tenth + 200);
  });

  it.each([
    '{ pets(limit: 1) { id } } # {{{{',
    '{ pet(id: "{[(\\"{{") { id } }',
    '{ pet(id: """{{ \\""" {{""") { id } }',
  ])('are not those with brackets in strings and comments: %s', async (document) => {
    const { status } = await gateway.graphql(document.replace('# {{{{', `# ${'{'.repeat(500)}`), { key });
    expect(status).toBe(200);
  });
});
