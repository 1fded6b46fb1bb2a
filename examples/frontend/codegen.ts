import type { CodegenConfig } from '@graphql-codegen/cli';

/** Types for the operations in src/, from the store's published schema. What it writes is not committed. */
const config: CodegenConfig = {
  schema: '../../schema/animal-store.graphql',
  documents: 'src/**/*.{ts,tsx}',
  generates: {
    'src/gql/': {
      preset: 'client',
      presetConfig: { fragmentMasking: false },
      config: { useTypeImports: true, enumsAsTypes: true, strictScalars: true, scalars: { ID: 'string' } },
    },
  },
};

export default config;
