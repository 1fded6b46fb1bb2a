import type { ApolloServerOptions, BaseContext } from '@apollo/server';
import type { DocumentNode } from 'graphql';
import { LRUCache } from 'lru-cache';

type DocumentStore = NonNullable<ApolloServerOptions<BaseContext>['documentStore']>;

/** Characters of documents at the most. A parsed document takes about a hundred times its text. */
const CAPACITY = 200_000;

/**
 * Makes the store of parsed documents for Apollo Server. Its own counts a document as the JSON that it writes of each, a small
 * part of what it takes; and what has been compiled is found without it.
 */
export function createDocumentStore(): DocumentStore {
  const documents = new LRUCache<string, DocumentNode>({
    maxSize: CAPACITY,
    sizeCalculation: ({ loc }) => 1 + (loc?.end ?? CAPACITY),
  });
  return {
    get: (key) => Promise.resolve(documents.get(key)),
    set(key, document) {
      documents.set(key, document);
      return Promise.resolve();
    },
    delete: (key) => Promise.resolve(documents.delete(key)),
  };
}
