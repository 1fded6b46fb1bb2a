import { createHash } from 'node:crypto';
import { unwatchFile, watchFile } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import { parse } from 'graphql';
import { z } from 'zod';
import { ConfigError } from '../config.js';
import { StoreError } from '../errors.js';
import type { HttpRequest } from '../http/request.js';
import type { Log } from '../observability/log.js';
import type { PrepareAhead } from './prepare.js';
import type { PreparedDocuments } from './prepared-documents.js';
import { readHash, type OperationRequest } from './request.js';

export interface TrustedDocumentsOptions {
  readonly documents: PreparedDocuments;
  /** What happens to documents that are not trusted. */
  readonly others: 'refused' | 'reported' | 'allowed';
  readonly count: (outcome: 'refused' | 'reported') => void;
}

/** Characters of a name in the log and in messages. */
const MAX_LOGGED_NAME = 100;

/**
 * Creates the documents that clients were built with. At first there are none: a request cannot name one until there is
 * a manifest.
 */
export function createTrustedDocuments({ documents, others, count }: TrustedDocumentsOptions) {
  /** The texts by their identifiers, without prefix. */
  let manifest: ReadonlyMap<string, string> = new Map();

  return {
    /**
     * Returns the request with the trusted document that it names, by `documentId` or Apollo's hash.
     * @throws StoreError `document_not_trusted`, also for a document sent as text if only trusted ones are allowed
     */
    resolve(request: OperationRequest, context: HttpRequest): OperationRequest {
      const { query, documentId, extensions } = request;
      const id = documentId ?? readHash(extensions);
      const named = id === undefined ? undefined : manifest.get(withoutPrefix(id));
      if (named !== undefined && (query ?? named) === named) return { ...request, query: named, extensions: undefined };
      // Without its text, a document that is not in the manifest cannot run.
      const mayRun = documentId === undefined || (query !== undefined && named === undefined);
      const isTrusted = query !== undefined && documents.isPinned(query);
      if (mayRun && (others === 'allowed' || isTrusted)) return request;
      const outcome = mayRun && others === 'reported' ? 'reported' : 'refused';
      count(outcome);
      if (outcome === 'reported') return request;
      throw new StoreError(
        'document_not_trusted',
        documentId === undefined
          ? 'This document is not trusted: send one that the client was built with.'
          : `No trusted document has the id ${show(documentId, context)}${query === undefined ? '' : ' and this text'}.`,
      );
    },
    replace(next: ReadonlyMap<string, string>): void {
      manifest = next;
      documents.pin(manifest.values());
    },
  };
}

export type TrustedDocuments = ReturnType<typeof createTrustedDocuments>;

/** Removes the prefix of https://github.com/graphql/graphql-over-http/pull/264, which is optional here. */
function withoutPrefix(id: string): string {
  return id.replace(/^sha256:/, '');
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function show(name: string, context: HttpRequest): string {
  return context.redact(name).slice(0, MAX_LOGGED_NAME);
}

export interface ManifestOptions {
  readonly path: string;
  readonly trusted: TrustedDocuments;
  readonly prepareAhead: PrepareAhead;
  readonly log: Log;
}

/** How often to look whether the file has changed, in milliseconds. */
const LOOK_EVERY_MS = 1_000;

/**
 * Reads the manifest and prepares its documents, and does so again whenever the file changes. If the new file is
 * broken, the previous manifest stays in use.
 * @returns a function that stops watching the file
 * @throws ConfigError when the file is not a manifest
 */
export async function openManifest(options: ManifestOptions): Promise<() => Promise<void>> {
  const { path, trusted, prepareAhead, log } = options;
  let loading = load();
  const reload = (): void => {
    loading = loading.then(load).catch((error: unknown) => {
      log.warn({ reason: (error as Error).message }, 'the previous manifest of trusted documents stays in use');
    });
  };
  // Unlike an event of the file system, a look also notices a file that is replaced through a symbolic link.
  watchFile(path, { interval: LOOK_EVERY_MS, persistent: false }, reload);
  await loading.catch((error: unknown) => {
    unwatchFile(path, reload);
    throw error;
  });
  return () => {
    unwatchFile(path, reload);
    return loading;
  };

  async function load(): Promise<void> {
    const manifest = await readManifest(path);
    trusted.replace(manifest);
    const ids = new Map([...manifest].map(([id, text]) => [text, id]));
    for (const [text, id] of ids) {
      await prepareAhead(text).catch((error: unknown) => {
        log.warn({ id, reason: (error as Error).message }, 'a trusted document is not valid');
      });
      await setImmediate();
    }
    if (ids.size === 0) {
      log.warn('the manifest of trusted documents is empty: TRUSTED_DOCUMENTS_ONLY=true refuses every document');
    }
    log.info({ documents: ids.size }, 'the manifest of trusted documents is loaded');
  }
}

/** An object that maps identifiers to documents, as graphql-codegen and Relay write it. */
const MAP = z.record(z.string(), z.string());
/** https://www.apollographql.com/docs/graphos/platform/security/persisted-queries#manifest-format */
const APOLLO_MANIFEST = z.object({
  format: z.literal('apollo-persisted-query-manifest'),
  version: z.literal(1),
  operations: z.array(z.object({ id: z.string(), body: z.string() })),
});
const MANIFEST = z.union([
  MAP.transform((map) => Object.entries(map)),
  APOLLO_MANIFEST.transform(({ operations }) => operations.map(({ id, body }) => [id, body] as const)),
]);

async function readManifest(path: string): Promise<ReadonlyMap<string, string>> {
  const broken = (reason: string) => new ConfigError(`TRUSTED_DOCUMENTS names ${path}, which ${reason}`);
  const content = await readFile(path, 'utf8').catch((error: unknown) => {
    throw broken(`cannot be read (${(error as Error).message})`);
  });
  let json: unknown;
  try {
    json = JSON.parse(content);
  } catch {
    throw broken('is not JSON');
  }
  const { success, data: entries } = MANIFEST.safeParse(json);
  if (!success) {
    throw broken("is neither an object that maps hashes to documents nor Apollo's persisted-query manifest");
  }
  const manifest = new Map<string, string>();
  for (const [id, text] of entries) {
    try {
      parse(text);
    } catch (error) {
      throw broken(`has the document ${id}, which is not GraphQL (${(error as Error).message})`);
    }
    // Other generators hash differently. The SHA-256 of the text names the document, too.
    manifest.set(sha256(text), text);
    await setImmediate();
  }
  for (const [id, text] of entries) manifest.set(withoutPrefix(id), text);
  return manifest;
}
