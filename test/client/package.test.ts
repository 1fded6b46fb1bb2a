import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { buildSchema, lexicographicSortSchema, printSchema } from 'graphql';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSchema } from '../../src/graphql/schema.js';

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A page's program: it has to say what it does about every code. */
function toSwitch(cases: readonly string[]): string {
  return `import { toStoreErrors, type StoreError, type UnrecognizedError } from 'animal-store-gateway/errors';
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

describe('the package, as an application has it', () => {
  let directory: string;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'animal-store-application-'));
    await mkdir(join(directory, 'node_modules'));
    await symlink(ROOT, join(directory, 'node_modules/animal-store-gateway'));
    for (const dependency of ['@apollo', 'rxjs', 'graphql', 'undici', '@types', 'undici-types']) {
      await symlink(join(ROOT, 'node_modules', dependency), join(directory, 'node_modules', dependency));
    }
    await writeFile(join(directory, 'package.json'), '{"type":"module"}');
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  /** What the compiler says of programs, with the types of a browser or of Node; by the file's name. */
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
    const complaints: Record<string, string[]> = {};
    for (const { messageText, file } of ts.getPreEmitDiagnostics(program)) {
      // The other packages lie here without what they need themselves.
      if (file && /node_modules\/(?!animal-store-gateway)/.test(file.fileName)) continue;
      const name = basename(file?.fileName ?? '', '.ts');
      (complaints[name] ??= []).push(ts.flattenDiagnosticMessageText(messageText, ' '));
    }
    return complaints;
  }

  it('lets a page switch on every code, says so when one is missing, and has the types of the link', async () => {
    const complaints = await compile(
      {
        complete: toSwitch(OTHERS),
        lacking: toSwitch(OTHERS.filter((code) => code !== 'KEY_BANNED')),
        unknown: toSwitch([...OTHERS, 'TEAPOT']),
        link: `import { ApolloLink } from '@apollo/client/link';
          import { createRetryAfterLink } from 'animal-store-gateway/link';
          export const link: ApolloLink = createRetryAfterLink({ onWait: ({ waitMs }) => void waitMs.toFixed() });
          // @ts-expect-error it is a number
          createRetryAfterLink({ maxWaitMs: '1 s' });`,
      },
      'browser',
    );
    expect(complaints).toEqual({
      lacking: [expect.stringContaining('lacks ending return statement')],
      unknown: [expect.stringContaining('"TEAPOT"\' is not comparable')],
    });
  });

  it('has the types of the client', async () => {
    const client = `import { createPetClient, PetError, type LoadedPet } from 'animal-store-gateway/client';
      const client = createPetClient({ url: 'http://127.0.0.1/graphql', key: 'k' });
      export const pets: Promise<(LoadedPet | PetError)[]> = client.loadMany(['1', 2, 3n]);
      // @ts-expect-error an id is no boolean
      export const wrong = client.load(true);`;
    expect(await compile({ client }, 'node')).toEqual({});
  });

  it('runs in Node by its names', async () => {
    const source = `import { STORE_ERRORS } from 'animal-store-gateway/errors';
      import { createRetryAfterLink } from 'animal-store-gateway/link';
      import { createPetClient } from 'animal-store-gateway/client';
      import { readFileSync } from 'node:fs';
      const schema = readFileSync(new URL(import.meta.resolve('animal-store-gateway/schema.graphql')), 'utf8');
      await createPetClient({ url: 'http://127.0.0.1:1/graphql', key: 'k' }).close();
      console.log(JSON.stringify([typeof STORE_ERRORS.NOT_FOUND, typeof createRetryAfterLink().request, schema]));`;
    const file = join(directory, 'application.mjs');
    await writeFile(file, source);
    const { stdout } = await run(process.execPath, ['--preserve-symlinks', '--preserve-symlinks-main', file], {
      cwd: directory,
    });
    const [catalogue, link, schema] = JSON.parse(stdout) as [string, string, string];
    expect([catalogue, link]).toEqual(['object', 'function']);
    const print = (definition: Parameters<typeof printSchema>[0]): string =>
      printSchema(lexicographicSortSchema(definition));
    expect(print(buildSchema(schema))).toBe(print(createSchema()));
    expect(schema).toContain('an int64 in canonical decimal');
  });

  it('keeps Node and the server out of what browsers load', async () => {
    const importsOf = async (name: string): Promise<(string | undefined)[]> => {
      const text = await readFile(join(ROOT, 'dist/client', name), 'utf8');
      return [...text.matchAll(/^(?:import|export) .*?from '([^']+)'|^import '([^']+)'|\bimport\(/gm)].map(
        ([, from, bare]) => from ?? bare,
      );
    };
    expect(await importsOf('errors.js')).toEqual([]);
    expect((await importsOf('link.js')).sort()).toEqual(['./errors.js', '@apollo/client/link', 'rxjs']);
  });
});
