import { LRUCache } from 'lru-cache';
import type { RootField } from './compile.js';
import type { Refusal } from './errors.js';
import type { VariableDefinition } from './variables.js';

/** A deprecated field that an operation uses. */
export interface Deprecation {
  /** Such as `Query.pet`. */
  readonly coordinate: string;
  readonly reason: string;
  /** The day on which the field will be removed, such as `2030-12-05`. */
  readonly sunset: string | undefined;
}

/** An operation of a valid document. */
export interface PreparedOperation {
  readonly type: 'query' | 'mutation';
  readonly name: string | undefined;
  /** Whether its document is pinned, so that its name may be a label of metrics. */
  readonly isPinned: boolean;
  readonly deprecations: readonly Deprecation[];
  readonly variables: readonly VariableDefinition[];
  /** The variables that decide which fields `@skip` and `@include` leave. */
  readonly conditions: readonly string[];
  /** The compiled root fields for each combination of the conditions' values. */
  readonly fields: Map<string, readonly RootField[]>;
}

/** What is known of a document text. */
export interface PreparedDocument {
  readonly text: string;
  /** Why the document is not valid, whatever the variables; absent when it is valid. */
  readonly refusal?: Refusal;
  /** The names of its operations; undefined for an operation without a name. */
  readonly names: readonly (string | undefined)[];
  /** The operations that have been asked for. */
  readonly operations: Map<string | undefined, PreparedOperation>;
}

/** Bytes kept for documents that have cost something, and for the others: documents that are free never push out paid ones. */
const PAID_BYTES = 24 * 1_024 * 1_024;
const FREE_BYTES = 8 * 1_024 * 1_024;
/** No document may take more than this share of its part. */
const LARGEST_SHARE = 1 / 16;
/** Combinations of conditions kept for one operation. */
const MAX_COMBINATIONS = 16;

/** Bytes that the parts of an entry take, measured on documents of seven kinds. A little is added. */
const ENTRY_BYTES = 1_700;
const OPERATION_BYTES = 1_000;
const VARIABLE_BYTES = 400;
const FIELD_BYTES = 1_000;
const VALUE_BYTES = 400;

/** Creates the cache of documents, so that none is parsed and validated twice. Entries are weighed by their memory. */
export function createPreparedDocuments() {
  let pinned = new Map<string, PreparedDocument | undefined>();
  const paid = createPart(PAID_BYTES);
  const free = createPart(FREE_BYTES);
  return {
    find: (text: string): PreparedDocument | undefined => pinned.get(text) ?? paid.get(text) ?? free.get(text),
    /** Adds a document, or weighs it again after something was added to it. */
    keep(document: PreparedDocument): void {
      for (const { fields } of document.operations.values()) {
        const [oldest] = fields.keys();
        if (fields.size > MAX_COMBINATIONS) fields.delete(oldest as string);
      }
      const { text } = document;
      if (pinned.has(text)) {
        pinned.set(text, document);
        return;
      }
      const part = paid.has(text) ? paid : free;
      // lru-cache weighs an entry again only if it is another object.
      part.delete(text);
      part.set(text, document);
    },
    /** Moves a document to the part of the cache that is kept for documents which cost something. */
    promote(document: PreparedDocument): void {
      if (pinned.has(document.text) || paid.has(document.text)) return;
      free.delete(document.text);
      paid.set(document.text, document);
    },
    /** Replaces the texts whose documents are never pushed out. */
    pin(texts: Iterable<string>): void {
      const previous = pinned;
      pinned = new Map();
      for (const text of texts) pinned.set(text, previous.get(text));
    },
    isPinned: (text: string): boolean => pinned.has(text),
  };
}

export type PreparedDocuments = ReturnType<typeof createPreparedDocuments>;

function createPart(bytes: number): LRUCache<string, PreparedDocument> {
  return new LRUCache<string, PreparedDocument>({
    maxSize: bytes,
    maxEntrySize: bytes * LARGEST_SHARE,
    sizeCalculation: weigh,
  });
}

/** The memory that a document takes, in bytes. */
function weigh({ text, refusal, operations }: PreparedDocument): number {
  let bytes = ENTRY_BYTES + 2 * text.length;
  if (refusal) bytes += 2 * JSON.stringify(refusal.errors).length;
  for (const { variables, fields } of operations.values()) {
    bytes += OPERATION_BYTES + VARIABLE_BYTES * variables.length;
    for (const roots of fields.values()) {
      const values = new Map(roots.map(({ write, valueCount }) => [write, valueCount]));
      bytes += FIELD_BYTES * roots.length;
      for (const count of values.values()) bytes += VALUE_BYTES * count;
    }
  }
  return bytes;
}
