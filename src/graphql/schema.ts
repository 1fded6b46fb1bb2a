import { readdirSync, readFileSync } from 'node:fs';
import { makeExecutableSchema } from '@graphql-tools/schema';
import type { IResolvers } from '@graphql-tools/utils';
import type { GraphQLSchema } from 'graphql';
import { resolvers } from './resolvers.js';

const SCHEMA = new URL('../../schema/', import.meta.url);

/** Builds the executable schema from the SDL under `schema/`. */
export function createSchema(): GraphQLSchema {
  const typeDefs = readdirSync(SCHEMA)
    .filter((name) => name.endsWith('.graphql'))
    .map((name) => readFileSync(new URL(name, SCHEMA), 'utf8'));
  // What a resolver is told about its field is the program's own, see compile.ts.
  return makeExecutableSchema({ typeDefs, resolvers: resolvers as IResolvers });
}
