import type { CodegenConfig } from '@graphql-codegen/cli';

const config: CodegenConfig = {
  schema: 'schema/*.graphql',
  generates: {
    'src/graphql/generated/resolver-types.ts': {
      plugins: ['typescript', 'typescript-resolvers'],
      config: {
        useTypeImports: true,
        strictScalars: true,
        scalars: { ID: 'string' },
        contextType: '../run.js#OperationContext',
        // The run step calls resolvers, and tells them this about their field.
        customResolveInfo: '../compile.js#FieldInfo',
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
