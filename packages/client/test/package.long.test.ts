import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createContext, Script } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PetClient } from '../src/index.js';

const PACKAGE = fileURLToPath(new URL('..', import.meta.url));
const NODE_MODULES = fileURLToPath(new URL('../../../node_modules/', import.meta.url));

/** A program that handles every error code. */
function toSwitch(cases: readonly string[]): string {
  return `import { toStoreErrors, type StoreError, type UnrecognizedError } from 'animal-store-client/errors';
    export function explain(error: StoreError | UnrecognizedError): string {
      switch (error.code) {
        case 'RATE_LIMITED': return 'again in ' + (error.retryAfter + 1);
        case 'OPERATION_TOO_LARGE': return 'costs ' + error.cost?.toFixed();
        case 'UNRECOGNIZED': return error.receivedCode ?? error.message;
        ${cases.map((code) => `case '${code}':`).join(' ')} return error.requestId;
      }
    }
    export const explainAll = (result: unknown): string[] => toStoreErrors(result).map(explain);`;
}

const OTHERS = [
  'FORBIDDEN',
  'UNAUTHENTICATED',
  'BAD_USER_INPUT',
  'NOT_FOUND',
  'KEY_BANNED',
  'BAD_REQUEST',
  'DOCUMENT_NOT_TRUSTED',
  'GRAPHQL_PARSE_FAILED',
  'GRAPHQL_VALIDATION_FAILED',
  'OPERATION_RESOLUTION_FAILURE',
  'PERSISTED_QUERY_NOT_FOUND',
  'SERVICE_UNAVAILABLE',
  'UPSTREAM_UNAVAILABLE',
  'UPSTREAM_TIMEOUT',
  'UPSTREAM_ERROR',
  'INTERNAL_SERVER_ERROR',
];

const CLIENT = `import { createPetClient, isPetError, type Pet, type PetError } from 'animal-store-client';
  import { createPetQueries } from 'animal-store-client/query-options';
  const client = createPetClient({ url: 'http://127.0.0.1/graphql', key: 'k', fetch });
  export const pets: Promise<(Pet | PetError)[]> = client.loadMany(['1', 2, 3n]);
  export const explain = (result: Pet | PetError): string => {
    if (!isPetError(result)) return result.name;
    return result.code === 'KEY_BANNED' ? result.retryAfter.toFixed() : result.message;
  };
  export const listed: Promise<readonly Pet[]> = createPetQueries(client)
    .list({ status: 'SOLD' })
    .queryFn({ signal: new AbortController().signal });
  // @ts-expect-error an id is not a boolean
  export const wrong = client.get(true);
  // @ts-expect-error there is no such status
  export const unsold = client.add({ name: 'Rex', categoryId: 1, status: 'UNSOLD' });`;

// The compiler reads the types of the browser, of Node and of Apollo Client.
describe('the types of the package', { timeout: 180_000 }, () => {
  let directory: string;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'animal-store-application-'));
    await mkdir(join(directory, 'node_modules'));
    await symlink(PACKAGE, join(directory, 'node_modules/animal-store-client'));
    for (const dependency of ['@apollo', '@urql', '@0no-co', 'wonka', 'rxjs', 'graphql', '@types', 'undici-types']) {
      await symlink(join(NODE_MODULES, dependency), join(directory, 'node_modules', dependency));
    }
    await writeFile(join(directory, 'package.json'), '{"type":"module"}');
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  /** Compiles programs for a browser or for Node. Returns the compiler's messages, by file name. */
  async function compile(
    sources: Readonly<Record<string, string>>,
    target: 'browser' | 'node',
  ): Promise<Record<string, string[]>> {
    const files = await Promise.all(
      Object.entries(sources).map(async ([name, source]) => {
        const file = join(directory, `${name}.ts`);
        await writeFile(file, source);
        return file;
      }),
    );
    const { NodeNext, Preserve } = ts.ModuleKind;
    const program = ts.createProgram(files, {
      strict: true,
      noEmit: true,
      preserveSymlinks: true,
      target: ts.ScriptTarget.ES2023,
      types: target === 'node' ? ['node'] : [],
      ...(target === 'node'
        ? { module: NodeNext, lib: ['lib.es2024.d.ts'] }
        : {
            module: Preserve,
            moduleResolution: ts.ModuleResolutionKind.Bundler,
            lib: ['lib.es2023.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
          }),
    });
    const messages: Record<string, string[]> = {};
    for (const { messageText, file } of ts.getPreEmitDiagnostics(program)) {
      // The other packages are installed without their own dependencies.
      if (file && /node_modules\/(?!animal-store-client)/.test(file.fileName)) continue;
      const name = basename(file?.fileName ?? '', '.ts');
      (messages[name] ??= []).push(ts.flattenDiagnosticMessageText(messageText, ' '));
    }
    return messages;
  }

  it('let a page switch on every code, and report a missing one', async () => {
    const messages = await compile(
      {
        complete: toSwitch(OTHERS),
        incomplete: toSwitch(OTHERS.filter((code) => code !== 'KEY_BANNED')),
        unknown: toSwitch([...OTHERS, 'TEAPOT']),
        client: CLIENT,
        link: `import { ApolloLink } from '@apollo/client/link';
          import { createRetryAfterLink } from 'animal-store-client/link';
          export const link: ApolloLink = createRetryAfterLink({ onWait: ({ waitMs }) => void waitMs.toFixed() });
          // @ts-expect-error it is a number
          createRetryAfterLink({ maxWaitMs: '1 s' });`,
        exchange: `import type { Exchange } from '@urql/core';
          import { createRetryAfterExchange } from 'animal-store-client/exchange';
          export const exchange: Exchange = createRetryAfterExchange({ maxWaitMs: 1 });`,
      },
      'browser',
    );
    expect(messages).toEqual({
      incomplete: [expect.stringContaining('lacks ending return statement')],
      unknown: [expect.stringContaining('"TEAPOT"\' is not comparable')],
    });
  });

  it('work in Node, without the types of a browser', async () => {
    expect(await compile({ client: CLIENT }, 'node')).toEqual({});
  });
});

describe('the bundled package', () => {
  /** Bundles a program that imports the package, and minifies it. */
  async function bundle(source: string): Promise<{ readonly text: string; readonly imports: readonly string[] }> {
    const { outputFiles, metafile } = await build({
      stdin: { contents: source, resolveDir: PACKAGE },
      bundle: true,
      minify: true,
      write: false,
      metafile: true,
      format: 'esm',
      platform: 'neutral',
      external: ['@apollo/client/*', 'rxjs', 'wonka'],
    });
    const imports = Object.values(metafile.outputs).flatMap((output) => output.imports.map(({ path }) => path));
    return { text: outputFiles[0]?.text ?? '', imports };
  }

  const EVERYTHING = ['', '/link', '/exchange', '/query-options']
    .map((path) => `export * from 'animal-store-client${path}';`)
    .join(' ');

  it.each([
    ['the client', `export * from 'animal-store-client';`, 7_300],
    ['everything', EVERYTHING, 8_249],
    ['the error catalogue', `export * from 'animal-store-client/errors';`, 2_000],
  ])('is small: %s', async (_, source, limit) => {
    const { text } = await bundle(source);
    expect(gzipSync(text).length).toBeLessThanOrEqual(limit);
  });

  it('imports Apollo Client and rxjs only for the link, and wonka only for the exchange', async () => {
    const importsOf = async (path: string): Promise<readonly string[]> =>
      (await bundle(`export * from 'animal-store-client${path}';`)).imports.toSorted();
    expect(await importsOf('')).toEqual([]);
    expect(await importsOf('/query-options')).toEqual([]);
    expect(await importsOf('/link')).toEqual(['@apollo/client/link', 'rxjs']);
    expect(await importsOf('/exchange')).toEqual(['wonka']);
  });

  it('drops what a program does not use', async () => {
    const { text } = await bundle(`export { isStoreErrorCode } from 'animal-store-client';`);
    expect(text).not.toContain('loadMany');
  });

  it('runs with only the globals of the web', async () => {
    const { text } = await bundle(`import { createPetClient } from 'animal-store-client';
      globalThis.createPetClient = createPetClient;`);
    const pet = { id: '1', name: 'Bella', categoryId: '1', status: null };
    const requests: unknown[] = [];
    const context = createContext({
      ...{ AbortController, AbortSignal, clearTimeout, crypto, Headers, performance, setTimeout, URL },
      fetch: (url: string, init: RequestInit) => {
        requests.push([url, init.method, JSON.parse(init.body as string).variables]);
        return Promise.resolve(Response.json({ data: { _0: pet } }));
      },
    });
    new Script(text).runInContext(context);
    const client = new Script(`createPetClient({ url: 'https://store.example/graphql', key: 'k' })`);
    const pets = client.runInContext(context) as PetClient;
    const { signal } = new AbortController();
    expect(await pets.get('1', { signal })).toEqual(pet);
    expect(await pets.add({ name: 'Bella', categoryId: 1 })).toEqual(pet);
    expect(requests).toEqual([
      ['https://store.example/graphql', 'POST', { i0: '1' }],
      ['https://store.example/graphql', 'POST', { i0: { name: 'Bella', categoryId: '1' } }],
    ]);
  });

  it.each([
    ['', ['STORE_ERRORS', 'createPetClient', 'isPetError', 'isStoreErrorCode', 'toStoreErrors']],
    ['/errors', ['STORE_ERRORS', 'isStoreErrorCode', 'toStoreErrors']],
    ['/link', ['createRetryAfterLink']],
    ['/exchange', ['createRetryAfterExchange']],
    ['/query-options', ['createPetQueries']],
  ])('is what `import` and `require` find in Node: animal-store-client%s', async (path, names) => {
    const name = `animal-store-client${path}`;
    expect(Object.keys((await import(name)) as object).sort()).toEqual(names);
    const require = createRequire(import.meta.url);
    expect(Object.keys(require(name) as object).sort()).toEqual(names);
    expect(require.resolve(name)).toContain('/dist/cjs/');
  });

  it('has no dependencies', async () => {
    const manifest = await readFile(join(PACKAGE, 'package.json'), 'utf8');
    expect(JSON.parse(manifest)).not.toHaveProperty('dependencies');
  });

  it('says where it comes from, as the package of the server does', async () => {
    const manifestOf = async (folder: string): Promise<any> =>
      JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
    const [own, server] = [await manifestOf(PACKAGE), await manifestOf(join(PACKAGE, '../../'))];
    expect(own.repository).toEqual({ ...server.repository, directory: 'packages/client' });
    expect(own.bugs).toBe(server.bugs);
    expect(own.homepage).toContain('/packages/client#readme');
  });
});
