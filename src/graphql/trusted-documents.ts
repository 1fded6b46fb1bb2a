import { createHash } from 'node:crypto';
import { StoreError } from '../errors.js';
import type { RequestContext } from '../http/request-context.js';
import type { PreparedDocuments } from './prepared-documents.js';
import { readHash, type OperationRequest } from './request.js';

/** Trusted documents by their identifiers, without prefix. */
export type Manifest = ReadonlyMap<string, string>;

export interface TrustedDocumentsOptions {
  readonly documents: PreparedDocuments;
  /** What happens to documents that are not trusted. */
  readonly others: 'refused' | 'reported' | 'allowed';
  readonly count: (outcome: 'refused' | 'reported') => void;
}

/** Characters of a name in the log. */
const MAX_LOGGED_NAME = 100;

/**
 * Creates the documents that clients were built with. At first there are none: a request cannot name one until there is
 * a manifest.
 */
export function createTrustedDocuments({ documents, others, count }: TrustedDocumentsOptions) {
  let manifest: Manifest = new Map();

  return {
    /**
     * Returns the request with the trusted document that it names, by `documentId` or Apollo's hash.
     * @throws StoreError `document_not_trusted`, also for a document sent as text if only trusted ones are allowed
     */
    resolve(request: OperationRequest, context: RequestContext): OperationRequest {
      const { query, documentId, extensions } = request;
      const id = documentId ?? readHash(extensions);
      const named = id === undefined ? undefined : manifest.get(withoutPrefix(id));
      if (named !== undefined && (query ?? named) === named) return { ...request, query: named, extensions: undefined };
      // Without its text, a document that is not in the manifest cannot run.
      const mayRun = documentId === undefined || (query !== undefined && named === undefined);
      if (mayRun && (others === 'allowed' || isTrusted(query))) return request;
      const outcome = mayRun && others === 'reported' ? 'reported' : 'refused';
      count(outcome);
      noteUntrusted(request, id, context);
      if (outcome === 'reported') return request;
      throw new StoreError(
        'document_not_trusted',
        documentId === undefined
          ? 'This document is not trusted: send one that the client was built with.'
          : `No trusted document has the id ${documentId.slice(0, MAX_LOGGED_NAME)}${query === undefined ? '' : ' and this text'}.`,
      );
    },
    /** Replaces the manifest. */
    replace(next: Manifest): void {
      manifest = next;
      documents.pin(manifest.values());
    },
  };

  function isTrusted(query: string | undefined): boolean {
    return query !== undefined && documents.isPinned(query);
  }
}

export type TrustedDocuments = ReturnType<typeof createTrustedDocuments>;

/** Removes the prefix of https://github.com/graphql/graphql-over-http/pull/264, which is optional here. */
export function withoutPrefix(id: string): string {
  return id.startsWith('sha256:') ? id.slice('sha256:'.length) : id;
}

/** Adds the name of a document that is not trusted to the log line of its request. */
function noteUntrusted(
  { query = '', operationName }: OperationRequest,
  id: string | undefined,
  context: RequestContext,
): void {
  const { logged } = context;
  const name = id?.slice(0, MAX_LOGGED_NAME) ?? `sha256:${createHash('sha256').update(query).digest('hex')}`;
  logged.untrusted = [logged.untrusted, operationName?.slice(0, MAX_LOGGED_NAME), name].filter(Boolean).join(' ');
  logged.client = context.clientName;
}
