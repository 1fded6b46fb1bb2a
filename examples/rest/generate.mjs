// Writes generated/ from the OpenAPI document of a running store.
import { mkdir, writeFile } from 'node:fs/promises';
import { createClient } from '@hey-api/openapi-ts';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

const url = `${process.env.STORE_URL ?? 'http://127.0.0.1:4000'}/v1/openapi.json`;

// openapi-typescript: types only. An int64 becomes a string, as exactFetch returns it.
const string = ts.factory.createKeywordTypeNode(ts.SyntaxKind.StringKeyword);
const types = await openapiTS(new URL(url), {
  transform: (schema) => (schema.format === 'int64' ? string : undefined),
});
await mkdir('generated', { recursive: true });
await writeFile('generated/schema.ts', astToString(types));

// @hey-api/openapi-ts: types and a client. An int64 becomes a bigint.
await createClient({
  input: url,
  output: 'generated/hey-api',
  plugins: [
    '@hey-api/client-fetch',
    '@hey-api/typescript',
    '@hey-api/transformers',
    { name: '@hey-api/sdk', transformer: true },
  ],
});
