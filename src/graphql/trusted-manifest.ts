import { createHash } from 'node:crypto';
import { unwatchFile, watchFile } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import { parse } from 'graphql';
import { z } from 'zod';
import { ConfigError } from '../config.js';
import type { Log } from '../observability/log.js';
import type { PrepareAhead } from './prepare.js';
import { withoutPrefix, type Manifest, type TrustedDocuments } from './trusted-documents.js';

export interface ManifestOptions {
  readonly path: string;
  readonly trusted: Pick<TrustedDocuments, 'replace'>;
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
export async function openManifest({
  path,
  trusted,
  prepareAhead,
  log,
}: ManifestOptions): Promise<() => Promise<void>> {
  let loading = load();
  const reload = (): void => {
    loading = loading.then(load).catch((error: unknown) => {
      log.warn({ reason: (error as Error).message }, 'the previous manifest of trusted documents stays in use');
    });
  };
  // Unlike an event of the file system, a look also notices a file that is replaced through a symbolic link.
  watchFile(path, { interval: LOOK_EVERY_MS, persistent: false }, reload);
  const close = (): Promise<void> => {
    unwatchFile(path, reload);
    return loading;
  };
  try {
    await loading;
  } catch (error) {
    unwatchFile(path, reload);
    throw error;
  }
  return close;

  async function load(): Promise<void> {
    const manifest = await readManifest(path);
    trusted.replace(manifest);
    const ids = new Map([...manifest].map(([id, text]) => [text, id]));
    for (const [text, id] of ids) {
      const reason = await prepareAhead(text);
      if (reason !== undefined) log.warn({ id, reason }, 'a trusted document is not valid');
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

async function readManifest(path: string): Promise<Manifest> {
  const { success, data: entries } = MANIFEST.safeParse(await readJson(path));
  if (!success) {
    throw broken(path, "is neither an object that maps hashes to documents nor Apollo's persisted-query manifest");
  }
  const manifest = new Map<string, string>();
  for (const [id, text] of entries) {
    try {
      parse(text);
    } catch (error) {
      throw broken(path, `has the document ${id}, which is not GraphQL (${(error as Error).message})`);
    }
    // Other generators hash differently. The SHA-256 of the text names the document, too.
    manifest.set(createHash('sha256').update(text).digest('hex'), text);
    await setImmediate();
  }
  for (const [id, text] of entries) manifest.set(withoutPrefix(id), text);
  return manifest;
}

async function readJson(path: string): Promise<unknown> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw broken(path, `cannot be read (${(error as Error).message})`);
  }
  try {
    return JSON.parse(text);
  } catch {
    throw broken(path, 'is not JSON');
  }
}

function broken(path: string, reason: string): ConfigError {
  return new ConfigError(`TRUSTED_DOCUMENTS names ${path}, which ${reason}`);
}
