import type { GraphQLFormattedError } from 'graphql';
import { LRUCache } from 'lru-cache';
import type { CompiledOperation } from './compiled/compile.js';

/** What has been found out about a document, by its text. */
export interface KnownDocument {
  /** Its operations that have been compiled, by the operationName that chooses them; null for those that cannot be. */
  readonly operations: Map<string | undefined, CompiledOperation | null>;
  /** Why it is no valid document, the same whatever the variables; undefined when it is valid. */
  readonly errors?: readonly GraphQLFormattedError[];
}

/** Remembers documents, valid and not, so that neither is parsed and validated over and over. */
export interface KnownDocuments {
  find(text: string): KnownDocument | undefined;
  rememberOperation(text: string, operationName: string | undefined, operation: CompiledOperation | null): void;
  rememberErrors(text: string, errors: readonly GraphQLFormattedError[]): void;
}

/** Documents that are remembered at the most, and their characters; with what is compiled of them, some tens of megabytes. */
const MAX_DOCUMENTS = 5_000;
const CAPACITY = 2_000_000;
/** A document that is larger is not worth it. */
const MAX_LENGTH = 100_000;
/** Operation names tried on one document at the most; those that exist are few, and those that do not are not remembered. */
const MAX_NAMES = 100;

export function createKnownDocuments(): KnownDocuments {
  const documents = new LRUCache<string, KnownDocument>({
    max: MAX_DOCUMENTS,
    maxSize: CAPACITY,
    maxEntrySize: MAX_LENGTH,
    sizeCalculation: ({ errors }, text) => text.length + (errors ? JSON.stringify(errors).length : 0) + 1,
  });
  return {
    find: (text) => documents.get(text),
    rememberOperation(text, operationName, operation) {
      const known = documents.get(text) ?? { operations: new Map() };
      if (known.operations.size < MAX_NAMES) known.operations.set(operationName, operation);
      documents.set(text, known);
    },
    rememberErrors(text, errors) {
      documents.set(text, { operations: new Map(), errors });
    },
  };
}
