import { hash } from 'node:crypto';
import { unwatchFile, watchFile } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { ConfigError } from '../config.js';
import { StoreError } from '../errors.js';
import type { HttpRequest } from '../http/request.js';
import type { Log } from '../observability/log.js';
import { RequestErrors } from './errors.js';
import type { OperationRequest } from './types.js';

export interface TrustedDocumentsOptions {
  /** What happens to documents that are not trusted. */
  readonly others: 'refused' | 'reported' | 'allowed';
  readonly count: (outcome: 'refused' | 'reported') => void;
}

/** Characters of a name in the log and in messages. */
const MAX_NAME = 100;

/** Creates the documents that clients were built with: none until there is a manifest. */
export function createTrustedDocuments({ others, count }: TrustedDocumentsOptions) {
  /** The texts by their identifiers, without prefix. */
  let manifest: ReadonlyMap<string, string> = new Map();
  let texts: ReadonlySet<string> = new Set();

  return {
    has: (text: string): boolean => texts.size > 0 && texts.has(text),
    /**
     * Finds the text of the trusted document that a request names, by `documentId` or Apollo's hash.
     * @param untrusted - receives the name of a document that is not trusted, for the log
     * @returns undefined if the request names none and may run another document
     * @throws StoreError `document_not_trusted`
     */
    find(request: OperationRequest, context: HttpRequest, untrusted: string[]): string | undefined {
      const { query, documentId, persistedQuery, operationName = '' } = request;
      const id = documentId ?? (persistedQuery?.version === 1 ? persistedQuery.sha256Hash : undefined);
      const named = id === undefined ? undefined : manifest.get(withoutPrefix(id));
      if (named !== undefined && (query ?? named) === named) return named;
      // Without its text, a document that is not in the manifest cannot run.
      const mayRun = documentId === undefined || (query !== undefined && named === undefined);
      if (mayRun && (others === 'allowed' || (query !== undefined && texts.has(query)))) return undefined;
      const outcome = mayRun && others === 'reported' ? 'reported' : 'refused';
      count(outcome);
      const name = id ?? `sha256:${hash('sha256', query ?? '')}`;
      const shown = [operationName, name].filter(Boolean).map((one) => context.redact(one).slice(0, MAX_NAME));
      untrusted.push(shown.join(' '));
      if (outcome === 'reported') return undefined;
      throw new StoreError(
        'document_not_trusted',
        documentId === undefined
          ? 'This document is not trusted: send one that the client was built with.'
          : `No trusted document has the id ${String(shown.at(-1))}${query === undefined ? '' : ' and this text'}.`,
      );
    },
    replace: (next: ReadonlyMap<string, string>): void => {
      manifest = next;
      texts = new Set(next.values());
    },
  };
}

export type TrustedDocuments = ReturnType<typeof createTrustedDocuments>;

/** Removes the prefix of https://github.com/graphql/graphql-over-http/pull/264, which is optional here. */
function withoutPrefix(id: string): string {
  return id.startsWith('sha256:') ? id.slice('sha256:'.length) : id;
}

export type PersistedQueries = ReturnType<typeof createPersistedQueries>;

/** Characters of the persisted queries that are kept. */
const PERSISTED_CHARACTERS = 1_000_000;

/** Creates the documents that clients have registered, by Apollo's protocol for automatic persisted queries. */
export function createPersistedQueries() {
  const texts = new LRUCache<string, string>({
    maxSize: PERSISTED_CHARACTERS,
    sizeCalculation: (text) => text.length + 64,
  });
  return {
    /**
     * Returns the text of the document that a request sends or names.
     * @throws RequestErrors `PERSISTED_QUERY_NOT_FOUND`, StoreError `bad_request`
     */
    find({ query, persistedQuery }: OperationRequest): string {
      if (!persistedQuery) return query as string;
      const { version, sha256Hash } = persistedQuery;
      if (version !== 1) throw new StoreError('bad_request', 'Persisted queries have version 1 here.');
      const text = texts.get(sha256Hash);
      if (query === undefined) {
        if (text !== undefined) return text;
        const error = { message: 'PersistedQueryNotFound', extensions: { code: 'PERSISTED_QUERY_NOT_FOUND' } };
        throw new RequestErrors(200, [error]);
      }
      if (query === text || hash('sha256', query) === sha256Hash) return query;
      throw new StoreError('bad_request', 'The sha256Hash is not that of the query.');
    },
    /** Keeps a document that has proved to be valid. */
    register({ query, persistedQuery }: OperationRequest): void {
      if (query !== undefined && persistedQuery) texts.set(persistedQuery.sha256Hash, query);
    },
  };
}

export interface ManifestOptions {
  readonly path: string;
  /** Called with the texts by their identifiers, each time the file has been read. */
  readonly replace: (manifest: ReadonlyMap<string, string>) => void;
  /** Parses and validates a document. @throws RequestErrors, StoreError */
  readonly check: (text: string) => Promise<unknown>;
  readonly log: Log;
}

/** How often to look at the file. */
const LOOK_EVERY_MS = 1_000;

/**
 * Reads the manifest, and does so again whenever the file changes. If the new file is broken, the previous manifest
 * stays in use.
 * @returns a function that stops watching the file
 * @throws ConfigError if the file is not a manifest
 */
export async function openManifest({ path, replace, check, log }: ManifestOptions): Promise<() => Promise<void>> {
  let loading = load();
  const reload = (): void => {
    loading = loading.then(load).catch((error: unknown) => {
      log.warn({ reason: (error as Error).message }, 'the previous manifest of trusted documents stays in use');
    });
  };
  // Unlike an event of the file system, a look also notices a file that is replaced through a symbolic link.
  watchFile(path, { interval: LOOK_EVERY_MS, persistent: false }, reload);
  await loading;
  return () => {
    unwatchFile(path, reload);
    return loading;
  };

  async function load(): Promise<void> {
    const entries = await readManifest();
    const manifest = new Map<string, string>();
    for (const [id, text] of entries) {
      await check(text).catch((error: unknown) => {
        const reason = (error as Error).message;
        const isGraphql = !(error instanceof RequestErrors) || error.status !== 400;
        if (!isGraphql) throw broken(`has the document ${id}, which is not GraphQL (${reason})`);
        log.warn({ id, reason }, 'a trusted document is not valid');
      });
      // Other generators hash differently. The SHA-256 of the text names the document, too.
      manifest.set(hash('sha256', text), text);
      await setImmediate();
    }
    for (const [id, text] of entries) manifest.set(withoutPrefix(id), text);
    replace(manifest);
    if (entries.length === 0) log.warn('the manifest of trusted documents is empty');
    log.info({ documents: entries.length }, 'the manifest of trusted documents is loaded');
  }

  async function readManifest(): Promise<z.infer<typeof MANIFEST>> {
    const content = await readFile(path, 'utf8').catch((error: unknown) => {
      throw broken(`cannot be read (${(error as Error).message})`);
    });
    let json: unknown;
    try {
      // Some editors write a byte order mark.
      json = JSON.parse(content.startsWith('\ufeff') ? content.slice(1) : content);
    } catch {
      throw broken('is not JSON');
    }
    const { success, data } = MANIFEST.safeParse(json);
    if (success) return data;
    throw broken("is neither an object that maps hashes to documents nor Apollo's persisted-query manifest");
  }

  function broken(reason: string): ConfigError {
    return new ConfigError(`TRUSTED_DOCUMENTS names ${path}, which ${reason}`);
  }
}

/** https://www.apollographql.com/docs/graphos/platform/security/persisted-queries#manifest-format */
const APOLLO_MANIFEST = z.object({
  format: z.literal('apollo-persisted-query-manifest'),
  version: z.literal(1),
  operations: z.array(z.object({ id: z.string(), body: z.string() })),
});
/** The identifiers and texts, also from an object as graphql-codegen and Relay write it. */
const MANIFEST = z.union([
  APOLLO_MANIFEST.transform(({ operations }) => operations.map(({ id, body }) => [id, body] as const)),
  z.record(z.string(), z.string()).transform((texts) => Object.entries(texts)),
]);
