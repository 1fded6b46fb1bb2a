import { expect, it } from 'vitest';
import type { RootField } from '../../src/graphql/compile.js';
import { createPreparedDocuments, type PreparedOperation } from '../../src/graphql/prepared-documents.js';

it('the cache weighs a document again when one of its operations has been compiled', () => {
  const documents = createPreparedDocuments();
  const texts = Array.from({ length: 100 }, (_, index) => `document ${index}`);
  for (const text of texts) {
    const document = { text, names: [undefined], operations: new Map<undefined, PreparedOperation>() };
    documents.keep(document);
    const root = { write: () => '', valueCount: 6 } as unknown as RootField;
    const fields = new Map([['', Array.from({ length: 100 }, () => ({ ...root, write: () => '' }))]]);
    document.operations.set(undefined, { variables: [], fields } as unknown as PreparedOperation);
    documents.keep(document);
  }
  // Each takes some 340 kB by its fields, and 8 MB are for documents that have cost nothing.
  const kept = texts.filter((text) => documents.find(text));
  expect(kept.length).toBeGreaterThan(10);
  expect(kept.length).toBeLessThan(30);
});
