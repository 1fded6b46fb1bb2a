import type { CodegenConfig } from '@graphql-codegen/cli';

const config: CodegenConfig = {
  schema: 'schema/*.graphql',
  generates: {
    'src/graphql/generated/resolver-types.ts': {
      plugins: ['typescript', 'typescript-resolvers'],
      config: {
        useTypeImports: true,
        strictScalars: true,
        // The price of a field parses its arguments before the resolver gets them.
        scalars: { ID: { input: '../../pets/int64.js#Int64', output: 'string' } },
        inputMaybeValue: 'T | undefined',
        contextType: '../types.js#OperationContext',
        makeResolverTypeCallable: true,
        mappers: { Pet: '../../pets/pet.js#Pet as StoredPet' },
        // The values that the enums have inside; the resolver map pairs them with their GraphQL names.
        enumValues: { PetStatus: '../../pets/pet.js#PetStatus', Plan: '../../access/plans.js#Plan' },
        immutableTypes: true,
      },
    },
  },
};

export default config;
