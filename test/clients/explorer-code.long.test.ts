import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EXAMPLES } from '../../pages/explorer/examples.js';
import { toCurl, toFetch, type Edited } from '../../pages/explorer/snippets.js';
import { startGateway, type Gateway } from '../support/gateway.js';
import { describeWith } from '../support/installed-program.js';

const run = promisify(execFile);

/** Beyond the examples, what is easy to get wrong in a shell or a string. */
const OTHERS: readonly Pick<Edited, 'query' | 'variables'>[] = [
  { query: '{ pets(limit: 1) { name } }', variables: '{}' },
  { query: 'query ($id: ID!) { pet(id: $id) { name } }', variables: '{ "id": 1 }\n' },
  {
    query: `mutation { addPet(input: { name: "It's \\"Max\\" \`$HOME\`", categoryId: 9223372036854775807 }) { name } }`,
    variables: '',
  },
];
const OPERATIONS: readonly Edited[] = [
  ...EXAMPLES.map(({ query, variables = '' }) => ({ query, variables, headers: {} })),
  ...OTHERS.map((operation) => ({ ...operation, headers: { 'Idempotency-Key': operation.query.length.toString() } })),
];

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
  });
  afterAll(async () => {
    await gateway.close();
    await rm(folder, { recursive: true, force: true });
  });

  it.each(OPERATIONS.map((edited) => ({ edited, query: edited.query })))(
    'gets what $query gets',
    async ({ edited }) => {
      const { query, variables, headers } = edited;
      const { data, errors } = await gateway.graphql(query, { key, rawVariables: variables || '{}', headers });
      expect(errors).toBeUndefined();
      const names = namesIn(data);

      await writeFile(join(folder, 'fetch.mjs'), toFetch(url, edited, undefined).replace('YOUR_KEY', key));
      const { stdout: printed } = await run('node', [join(folder, 'fetch.mjs')]);
      expect(printed).toMatch(/^200 \{\s+data: /);

      for (const command of [toCurl(url, edited, key), toCurl(url, edited, undefined).replace('YOUR_KEY', key)]) {
        const { stdout } = await run('sh', ['-c', command]);
        expect(namesIn((JSON.parse(stdout) as { data: unknown }).data)).toEqual(names);
      }
    },
  );
});

/** The names of the animals in a result, in order. */
function namesIn(result: unknown): readonly string[] {
  if (typeof result !== 'object' || result === null || '__type' in result) return [];
  const { name, ...others } = result as { readonly name?: string };
  return [...(name === undefined ? [] : [name]), ...Object.values(others).flatMap(namesIn)];
}
