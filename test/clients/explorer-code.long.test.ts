import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EXAMPLES } from '../../pages/explorer/examples.js';
import { toClientCode, toCurl, toFetch, type Edited } from '../../pages/explorer/snippets.js';
import { startGateway, type Gateway } from '../support/gateway.js';
import { describeWith } from '../support/installed-program.js';
import { ROOT } from '../docs/markdown.js';

const run = promisify(execFile);
const TSC = '--ignoreConfig --noEmit --strict --skipLibCheck --types node --target es2023 --lib es2024,dom';

/** Beyond the examples, what is easy to leave out of the client code. */
const OTHERS: readonly (Pick<Edited, 'query'> & Partial<Edited>)[] = [
  { query: '{ pets(status: null, limit: 2) { name } }' },
  { query: 'query ($limit: Int! = 2, $status: PetStatus) { pets(limit: $limit, status: $status) { name } }' },
  { query: '{ ... on Query { pets(limit: 1) { name } } ...F ...F } fragment F on Query { pet(id: 2) { name } }' },
  {
    query: `query ($with: Boolean = false, $without: Boolean!) {
      pets(limit: 1) @include(if: $with) { name }
      two: pets(limit: 2) @include(if: true) @skip(if: $without) { name }
      ... @skip(if: true) { three: pets(limit: 3) { name } }
      ...F @include(if: $with)
      pet(id: 3) { name }
    } fragment F on Query { four: pets(limit: 4) { name } }`,
    variables: { without: false },
  },
  {
    query: `mutation { addPet(input: { name: "It's \\"Max\\"", categoryId: 9223372036854775807 }) { name } }`,
    headers: { 'Idempotency-Key': '8e03978e-40d5-43dd-bc93-6894a57f9324' },
  },
];
const OPERATIONS: readonly Edited[] = [
  ...EXAMPLES.map(({ query, variables = '{}' }) => ({
    query,
    variables: JSON.parse(variables) as Edited['variables'],
  })),
  ...OTHERS,
].map((operation) => ({ headers: {}, variables: {}, ...operation }));

describeWith('curl', 'the code that the explorer copies', () => {
  let gateway: Gateway;
  let folder: string;
  let url: string;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway('embedded', { SAMPLE_DATA: 'true' });
    url = `${gateway.url}/graphql`;
    ({ key } = await gateway.createKey());
    folder = await mkdtemp(join(tmpdir(), 'explorer-code-'));
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  });
  afterAll(async () => {
    await gateway.close();
    await rm(folder, { recursive: true, force: true });
  });

  const runNode = async (file: string): Promise<string> =>
    (await run('node', ['--import', 'tsx', file], { cwd: folder })).stdout;

  it('has types that fit, for the client package', async () => {
    const files = OPERATIONS.map((_, index) => `${index}.ts`);
    await Promise.all(files.map((file, index) => writeFile(join(folder, file), toClientCode(url, at(index)))));
    const tsc = join(ROOT, 'node_modules/.bin/tsc');
    await run(tsc, [...TSC.split(' '), '--module', 'nodenext', ...files], { cwd: folder });
  });

  it.each(OPERATIONS.map(({ query }, index) => ({ index, query })))('gets what $query gets', async ({ index }) => {
    const { query, variables, headers } = at(index);
    const { data, errors } = await gateway.graphql(query, { key, variables, headers });
    expect(errors).toBeUndefined();
    const expected = namesIn(data);

    const code = toClientCode(url, at(index)).replace('YOUR_KEY', key);
    await writeFile(
      join(folder, 'client.ts'),
      code.replaceAll(/console\.log\((.*)\);/g, 'console.log(JSON.stringify($1));'),
    );
    const printed = (await runNode('client.ts')).split('\n').filter((line) => line !== '');
    expect(namesIn(printed.map((line) => JSON.parse(line) as unknown))).toEqual(expected);
    if (expected.length === 0) expect(code).toContain('// The client package has no method for ');

    await writeFile(join(folder, 'fetch.js'), toFetch(url, at(index)).replace('YOUR_KEY', key));
    expect(await runNode('fetch.js')).toMatch(/^200 \{\s+data: /);

    const { stdout } = await run('sh', ['-c', toCurl(url, at(index), key)]);
    expect(namesIn((JSON.parse(stdout) as { data: unknown }).data)).toEqual(expected);
  });
});

const at = (index: number): Edited => OPERATIONS[index] as Edited;

/** The names of the animals in a result, in order. */
function namesIn(result: unknown): readonly string[] {
  if (typeof result !== 'object' || result === null || '__type' in result) return [];
  const { name, ...others } = result as { readonly name?: string };
  return [...(name === undefined ? [] : [name]), ...Object.values(others).flatMap(namesIn)];
}
