import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createContext, Script } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const PACKAGE = fileURLToPath(new URL('..', import.meta.url));
const NODE_MODULES = fileURLToPath(new URL('../../../node_modules/', import.meta.url));

/** A program that handles every error code. */
function toSwitch(cases: readonly string[]): string {
  return `import { toStoreErrors, type StoreError, type UnrecognizedError } from 'animal-store-client/errors';
    export function explain(error: StoreError | UnrecognizedError): string {
      switch (error.code) {
        case 'RATE_LIMITED': return 'again in ' + (error.retryAfter + 1);
        case 'OPERATION_TOO_LARGE': return 'costs ' + error.cost.toFixed();
        case 'UNRECOGNIZED': return error.receivedCode ?? error.message;
        ${cases.map((code) => `case '${code}':`).join(' ')} return error.requestId;
      }
    }
    export const explainAll = (result: unknown): string[] => toStoreErrors(result).map(explain);`;
}

const OTHERS = [
  'UNAUTHENTICATED',
  'BAD_USER_INPUT',
  'NOT_FOUND',
  'KEY_BANNED',
  'BAD_REQUEST',
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

const CLIENT = `import { createPetClient, PetError, type LoadedPet } from 'animal-store-client';
  const client = createPetClient({ url: 'http://127.0.0.1/graphql', key: 'k', fetch });
  export const pets: Promise<(LoadedPet | PetError)[]> = client.loadMany(['1', 2, 3n]);
  // @ts-expect-error an id is not a boolean
  export const wrong = client.load(true);`;

// The compiler reads the types of the browser, of Node and of Apollo Client.
describe('the types of the package', { timeout: 180_000 }, () => {
  let directory: string;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'animal-store-application-'));
    await mkdir(join(directory, 'node_modules'));
    await symlink(PACKAGE, join(directory, 'node_modules/animal-store-client'));
    for (const dependency of ['@apollo', 'rxjs', 'graphql', '@types', 'undici-types']) {
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
      external: ['@apollo/client/*', 'rxjs'],
    });
    const imports = Object.values(metafile.outputs).flatMap((output) => output.imports.map(({ path }) => path));
    return { text: outputFiles[0]?.text ?? '', imports };
  }

  const EVERYTHING = `export * from 'animal-store-client'; export * from 'animal-store-client/link';`;

  it.each([
    ['everything', EVERYTHING, 6_000],
    ['the error catalogue', `export * from 'animal-store-client/errors';`, 2_000],
  ])('is small: %s', async (_, source, limit) => {
    const { text } = await bundle(source);
    expect(gzipSync(text).length).toBeLessThanOrEqual(limit);
  });

  it('imports only Apollo Client and rxjs, and only for the link', async () => {
    expect((await bundle(EVERYTHING)).imports.toSorted()).toEqual(['@apollo/client/link', 'rxjs']);
    expect((await bundle(`export * from 'animal-store-client';`)).imports).toEqual([]);
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
      ...{ AbortController, clearTimeout, DOMException, Headers, performance, setTimeout, URL },
      fetch: (url: string, init: RequestInit) => {
        requests.push([url, init.method, JSON.parse(init.body as string).variables]);
        return Promise.resolve(Response.json({ data: { p0: pet } }));
      },
    });
    new Script(text).runInContext(context);
    const client = new Script(`createPetClient({ url: 'https://store.example/graphql', key: 'k' })`);
    const { load } = client.runInContext(context) as { load: (id: string) => Promise<unknown> };
    expect(await load('1')).toEqual(pet);
    expect(requests).toEqual([['https://store.example/graphql', 'POST', { i0: '1' }]]);
  });

  it('is what `import` finds in Node', async () => {
    const names = async (path: string): Promise<string[]> => Object.keys((await import(path)) as object).sort();
    const errors = ['STORE_ERRORS', 'isStoreErrorCode', 'toStoreErrors'];
    expect(await names('animal-store-client')).toEqual(['PetError', ...errors, 'createPetClient'].sort());
    expect(await names('animal-store-client/errors')).toEqual(errors);
    expect(await names('animal-store-client/link')).toEqual(['createRetryAfterLink', 'isRepeatable']);
    const manifest = await readFile(join(PACKAGE, 'package.json'), 'utf8');
    expect(JSON.parse(manifest)).not.toHaveProperty('dependencies');
  });
});
