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
import type { Apollo } from './apollo.js';
import { RequestErrors } from './errors.js';
import type { ExecutedOperation, OperationRequest } from './types.js';

export interface DocumentsOptions {
  /** The manifest. Without one, no document is trusted. */
  readonly path?: string;
  readonly others?: 'refused' | 'reported' | 'allowed';
  readonly count: (outcome: 'refused' | 'reported') => void;
  readonly check: Apollo['check'];
  readonly log: Log;
}

/** Characters of a name in the log and in messages. */
const MAX_NAME = 100;
const LOOK_EVERY_MS = 1_000;
const PERSISTED_CHARACTERS = 1_000_000;
const MAX_PERSISTED_CHARACTERS = 50_000;

export type Documents = Awaited<ReturnType<typeof openDocuments>>;

/**
 * Opens the documents that requests can name: the trusted ones, and those that clients have registered as Apollo's
 * automatic persisted queries. If the manifest changes and the new one is broken, the previous one stays in use.
 * @throws ConfigError if the file is not a manifest
 */
export async function openDocuments({ path, others = 'allowed', count, check, log }: DocumentsOptions) {
  /** The trusted texts by their identifiers, without prefix. Undefined until there is a manifest. */
  let manifest: ReadonlyMap<string, string> | undefined;
  let trusted: ReadonlySet<string> = new Set();
  const persisted = new LRUCache<string, string>({
    maxSize: PERSISTED_CHARACTERS,
    maxEntrySize: MAX_PERSISTED_CHARACTERS,
    sizeCalculation: (text) => text.length + 64,
  });

  let loading = Promise.resolve();
  if (path !== undefined) {
    const first = load(path);
    loading = first;
    // Unlike an event, a look also notices a file that is replaced through a symbolic link, and while it is read.
    watchFile(path, { interval: LOOK_EVERY_MS, persistent: false }, () => {
      loading = loading
        .then(() => load(path))
        .catch((error: unknown) => {
          const reason = (error as Error).message;
          if (manifest) log.warn({ reason }, 'the previous manifest of trusted documents stays in use');
        });
    });
    await first;
  }

  return {
    /**
     * Finds the text of the document that a request sends, or names by `documentId` or Apollo's hash.
     * @param answer - receives whether the document is trusted, and the name of one that is not
     * @throws RequestErrors `PERSISTED_QUERY_NOT_FOUND`, StoreError `document_not_trusted`, `bad_request`
     */
    find(request: OperationRequest, http: HttpRequest, answer: Partial<ExecutedOperation>): string {
      const { query, documentId, persistedHash } = request;
      const id = documentId ?? persistedHash;
      const named = id === undefined ? undefined : manifest?.get(withoutPrefix(id));
      answer.isTrusted = true;
      if (named !== undefined && (query ?? named) === named) return named;
      answer.isTrusted = query !== undefined && trusted.has(query);
      // An unknown `documentId` needs a text beside it; a known one allows only its own text.
      const isMisnamed = documentId !== undefined && (query === undefined || named !== undefined);
      const outcome = isMisnamed ? 'refused' : answer.isTrusted ? 'allowed' : others;
      if (outcome !== 'allowed') {
        count(outcome);
        const names = [request.operationName, id ?? `sha256:${hash('sha256', query ?? '')}`];
        const shown = names.flatMap((name) => (name === undefined ? [] : http.redact(name).slice(0, MAX_NAME)));
        answer.untrusted = shown.join(' ');
        if (outcome === 'refused') throw notTrusted(request, shown.at(-1));
      }
      return persistedHash === undefined ? (query as string) : findPersisted(persistedHash, query);
    },
    async close(): Promise<void> {
      if (path !== undefined) unwatchFile(path);
      await loading;
    },
  };

  /** Finds the text of a hash, or keeps the one that came with it. */
  function findPersisted(sha256Hash: string, query?: string): string {
    const kept = persisted.get(sha256Hash);
    const text = query ?? kept;
    if (text === undefined) {
      const error = { message: 'PersistedQueryNotFound', extensions: { code: 'PERSISTED_QUERY_NOT_FOUND' } };
      throw new RequestErrors(200, [error]);
    }
    if (text === kept) return text;
    if (hash('sha256', text) !== sha256Hash)
      throw new StoreError('bad_request', 'The sha256Hash is not that of the query.');
    persisted.set(sha256Hash, text);
    return text;
  }

  async function load(file: string): Promise<void> {
    const broken = (reason: string): ConfigError => new ConfigError(`TRUSTED_DOCUMENTS names ${file}, which ${reason}`);
    const content = await readFile(file, 'utf8').catch((error: unknown) => {
      throw broken(`cannot be read (${(error as Error).message})`);
    });
    let entries: z.output<typeof MANIFEST>;
    try {
      // Some editors write a byte order mark.
      entries = MANIFEST.parse(JSON.parse(content.replace(/^\ufeff/, '')));
    } catch {
      throw broken('is neither a JSON object of hashes and documents nor a persisted-query manifest of Apollo');
    }
    const next = new Map<string, string>();
    for (const [id, text] of entries) {
      await check(text).catch((error: unknown) => {
        const { status, message: reason } = error as RequestErrors | StoreError;
        if (status === 400) throw broken(`has the document ${id}, which cannot be parsed (${reason})`);
        log.warn({ id, reason }, 'a trusted document is not valid');
      });
      // Whatever hashes the manifest has, the SHA-256 of the text names the document, too.
      next.set(hash('sha256', text), text);
      await setImmediate();
    }
    for (const [name, text] of entries) {
      const id = withoutPrefix(name);
      if ((next.get(id) ?? text) !== text) throw broken(`has two documents with the id ${id}`);
      next.set(id, text);
    }
    manifest = next;
    trusted = new Set(next.values());
    if (entries.length === 0) log.warn('the manifest of trusted documents is empty');
    log.info({ documents: entries.length }, 'the manifest of trusted documents is loaded');
  }
}

/** The prefix of https://github.com/graphql/graphql-over-http/pull/264 is optional here. */
function withoutPrefix(id: string): string {
  return id.replace(/^sha256:/, '');
}

function notTrusted({ query, documentId }: OperationRequest, name = ''): StoreError {
  const message =
    documentId === undefined
      ? 'This document is not trusted: send one that the client was built with.'
      : `No trusted document has the id ${name}${query === undefined ? '' : ' and this text'}.`;
  return new StoreError('document_not_trusted', message);
}

/** The identifiers and texts: an object as graphql-codegen and Relay write it, or what Apollo's generator writes. */
const MANIFEST = z.union([
  // https://www.apollographql.com/docs/graphos/platform/security/persisted-queries#manifest-format
  z
    .object({
      format: z.literal('apollo-persisted-query-manifest'),
      version: z.literal(1),
      operations: z.array(z.object({ id: z.string(), body: z.string() })),
    })
    .transform(({ operations }) => operations.map(({ id, body }) => [id, body] as const)),
  z.record(z.string(), z.string()).transform((texts) => Object.entries(texts)),
]);
