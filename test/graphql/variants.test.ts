import { hash } from 'node:crypto';
import pino from 'pino';
import { expect, it } from 'vitest';
import { startApollo } from '../../src/graphql/apollo.js';
import { openDocuments } from '../../src/graphql/documents.js';
import { createPrepare } from '../../src/graphql/prepare.js';
import { createSchema } from '../../src/graphql/resolvers.js';
import type { OperationRequest } from '../../src/graphql/types.js';
import type { HttpRequest } from '../../src/http/request.js';

async function start() {
  const schema = createSchema();
  const log = pino({ level: 'silent' });
  const limits = { maxRootFields: 100, maxResponseBytes: 1_000_000, maxBatch: 20, maxBodyBytes: 1_048_576 };
  const apollo = await startApollo(schema, { introspection: true, explorer: false, production: false, limits }, log);
  const documents = await openDocuments({ count: () => undefined, check: apollo.check, log });
  const checked: string[] = [];
  const check: typeof apollo.check = (query) => {
    checked.push(query);
    return apollo.check(query);
  };
  const prepare = createPrepare(schema, { ...apollo, check }, documents);
  const ask = (sent: Partial<OperationRequest>, caller = 'someone') =>
    prepare(
      {
        query: undefined,
        variables: {},
        documentId: undefined,
        persistedHash: undefined,
        operationName: undefined,
        ...sent,
      },
      { method: 'POST', caller, body: Buffer.alloc(0) } as unknown as HttpRequest,
      {},
    );
  return { ask, checked, stop: () => apollo.stop() };
}

it('the variants of one document, even empty ones, take room in the cache', async () => {
  const { ask, checked, stop } = await start();
  const names = Array.from({ length: 11 }, (_, index) => `a${index}`);
  const definitions = names.map((name) => `$${name}: Boolean!`).join();
  const fields = names.map((name) => `${name}: __typename @skip(if: $${name})`).join(' ');
  const query = `query (${definitions}) { ... @skip(if: true) { ${fields} } __typename }`;
  for (let bits = 0; bits < 2_000; bits += 1) {
    const variables = Object.fromEntries(names.map((name, index) => [name, Boolean(bits & (1 << index))]));
    await ask({ query, variables }, String(bits));
  }
  expect(checked.length).toBeGreaterThan(2);
  await stop();
});

it('a document with too many variants is not kept', async () => {
  const { ask, checked, stop } = await start();
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const fields = names.map((name) => `${name}: __typename @skip(if: $${name})`).join(' ');
  const query = `query (${names.map((name) => `$${name}: Boolean!`).join()}) { ${fields} __typename }`;
  const variants = Array.from({ length: 2 ** names.length }, (_, bits) =>
    Object.fromEntries(names.map((name, index) => [name, Boolean(bits & (1 << index))])),
  );
  for (const [index, variables] of variants.entries()) await ask({ query, variables }, String(index));
  await ask({ query, variables: variants[0] });
  expect(checked).toHaveLength(2);
  await stop();
});

it('large documents are not kept, so that a few cannot evict those of others', async () => {
  const { ask, checked, stop } = await start();
  const lookups = Array.from(
    { length: 100 },
    (_, index) => `animal${index}: pet(id: "${index}") { id name categoryId status }`,
  );
  const query = `{ ${lookups.join(' ')} }`;
  const persistedHash = hash('sha256', query);
  await ask({ query, persistedHash });
  await ask({ query }, 'another');
  for (let index = 0; index < 20; index++) {
    const large = `{ __typename } # ${index} ${' '.repeat(150_000)}`;
    await ask({ query: large, persistedHash: hash('sha256', large) }, 'greedy');
  }
  await ask({ persistedHash });
  expect(checked.filter((text) => text === query)).toHaveLength(1);
  await stop();
});
