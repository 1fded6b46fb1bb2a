import { readdirSync, readFileSync } from 'node:fs';
import { makeExecutableSchema } from '@graphql-tools/schema';
import type { GraphQLSchema } from 'graphql';
import { resolvers } from './resolvers.js';

const SCHEMA = new URL('../../schema/', import.meta.url);

/** Builds the executable schema from the SDL under `schema/`. */
export function createSchema(): GraphQLSchema {
  const typeDefs = readdirSync(SCHEMA)
    .filter((name) => name.endsWith('.graphql'))
    .map((name) => readFileSync(new URL(name, SCHEMA), 'utf8'));
  return makeExecutableSchema({ typeDefs, resolvers });
}
