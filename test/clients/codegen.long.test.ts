import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { readDocument, ROOT } from '../docs/markdown.js';

const run = promisify(execFile);

it('the configuration of docs/clients.md generates types with exact identifiers', async () => {
  const config = readDocument('docs/clients.md').blocks.find(({ text }) => text.includes('CodegenConfig'));
  const folder = await mkdtemp(join(tmpdir(), 'codegen-'));
  try {
    await mkdir(join(folder, 'src'));
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    await cp(join(ROOT, 'schema/animal-store.graphql'), join(folder, 'animal-store.graphql'));
    await writeFile(join(folder, 'codegen.ts'), config?.text ?? '');
    await writeFile(
      join(folder, 'src/page.tsx'),
      'import { graphql } from "./gql"; export const PETS = graphql(`query Pets { pets { id status } }`);',
    );
    await run(join(ROOT, 'node_modules/.bin/graphql-codegen'), { cwd: folder });
    const types = await readFile(join(folder, 'src/gql/graphql.ts'), 'utf8');
    expect(/export type PetsQuery = .*/.exec(types)?.[0]).toContain('id: string, status: PetStatus | null');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
