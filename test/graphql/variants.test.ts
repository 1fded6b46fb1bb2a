import pino from 'pino';
import { expect, it } from 'vitest';
import { startApollo } from '../../src/graphql/apollo.js';
import { openDocuments } from '../../src/graphql/documents.js';
import { createPrepare } from '../../src/graphql/prepare.js';
import { createSchema } from '../../src/graphql/resolvers.js';
import type { HttpRequest } from '../../src/http/request.js';

it('the variants of one document, even empty ones, take room in the cache', async () => {
  const schema = createSchema();
  const log = pino({ level: 'silent' });
  const limits = { maxRootFields: 100, maxResponseBytes: 1_000_000, maxBatch: 20, maxBodyBytes: 1_048_576 };
  const apollo = await startApollo(schema, { introspection: true, explorer: false, production: false, limits }, log);
  const documents = await openDocuments({ count: () => undefined, check: apollo.check, log });
  let checks = 0;
  const check: typeof apollo.check = (query) => {
    checks += 1;
    return apollo.check(query);
  };
  const prepare = createPrepare(schema, { ...apollo, check }, documents);
  const names = Array.from({ length: 11 }, (_, index) => `a${index}`);
  const definitions = names.map((name) => `$${name}: Boolean!`).join();
  const fields = names.map((name) => `${name}: __typename @skip(if: $${name})`).join(' ');
  const query = `query (${definitions}) { ... @skip(if: true) { ${fields} } __typename }`;
  for (let bits = 0; bits < 2_000; bits += 1) {
    const variables = Object.fromEntries(names.map((name, index) => [name, Boolean(bits & (1 << index))]));
    const request = { query, variables, documentId: undefined, persistedQuery: undefined, operationName: undefined };
    await prepare(
      request,
      { method: 'POST', caller: String(bits), body: Buffer.alloc(0) } as unknown as HttpRequest,
      {},
    );
  }
  expect(checks).toBeGreaterThan(2);
  await apollo.stop();
});
