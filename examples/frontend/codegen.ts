import type { CodegenConfig } from '@graphql-codegen/cli';
import { addTypenameSelectionDocumentTransform } from '@graphql-codegen/client-preset';

/**
 * Types for the operations in src/, from the store's published schema, and the manifest of their documents. Only the
 * manifest is committed.
 */
const config: CodegenConfig = {
  schema: '../../schema/animal-store.graphql',
  documents: 'src/**/*.{ts,tsx}',
  generates: {
    'src/gql/': {
      preset: 'client',
      presetConfig: { fragmentMasking: false, persistedDocuments: { hashAlgorithm: 'sha256' } },
      // The manifest has the documents as Apollo Client's cache needs them.
      documentTransforms: [addTypenameSelectionDocumentTransform],
      config: { useTypeImports: true, enumsAsTypes: true, strictScalars: true, scalars: { ID: 'string' } },
    },
  },
};

export default config;
