import { readFileSync } from 'node:fs';
import { makeExecutableSchema } from '@graphql-tools/schema';
import type { IResolvers } from '@graphql-tools/utils';
import { GraphQLError, Kind, type GraphQLSchema, type ValueNode } from 'graphql';
import type { Allowance } from '../access/session.js';
import { toUnixSeconds } from '../clock.js';
import { JsonNumber } from '../json/exact-json.js';
import { pickPet, type FoundPets } from '../pets/pet-source.js';
import type { RateLimit, Resolvers } from './generated/resolver-types.js';

const NO_SCALAR = 'An ID must be a whole number such as "42", got a name, a list or an object.';

/**
 * An ID is read as the text that was written, whatever scalar it was: the built-in ID rounds large JSON numbers and
 * refuses fractions and booleans for the whole operation. Here, the field itself refuses what is no int64.
 */
const ID = {
  __parseValue(value: unknown): string {
    if (typeof value === 'string') return value;
    if (typeof value === 'number' || typeof value === 'boolean' || value instanceof JsonNumber) return String(value);
    throw new GraphQLError(NO_SCALAR);
  },
  __parseLiteral(node: ValueNode): string {
    if ('value' in node && node.kind !== Kind.ENUM) return String(node.value);
    throw new GraphQLError(NO_SCALAR, { nodes: node });
  },
};

/** A resolver gets the arguments as the price of its field has parsed them. */
export const resolvers: Resolvers & { ID: typeof ID } = {
  Query: {
    pets: (_, query, { source, call }) => source.list(query, call),
    pet: (_, { id }, { found }) => pickPet(found as FoundPets, id),
    rateLimit: async (_, { dryRun }, { priced, session, guardRateLimit }) => {
      if (priced.isDryRun && !dryRun) return null;
      // What is left is asked first, however long the guard takes.
      const [allowance] = await Promise.all([session.allowance(), guardRateLimit(session)]);
      return allowance === undefined ? null : toRateLimit(allowance, priced.cost);
    },
  },
  Mutation: {
    addPet: (_, { input }, { source, call, nextIdempotencyKey }) => source.add(input, call, nextIdempotencyKey()),
  },
  PetStatus: { AVAILABLE: 'available', PENDING: 'pending', SOLD: 'sold' },
  Plan: { FREE: 'free', PRO: 'pro', BUSINESS: 'business', ENTERPRISE: 'enterprise' },
  ID,
};

function toRateLimit({ plan, windows }: Allowance, cost: number): RateLimit {
  return {
    plan: plan ?? null,
    cost,
    windows: windows.map(({ seconds, limit, remaining, resetAt }) => ({
      seconds: seconds === null ? null : toInt(seconds),
      limit: toInt(limit),
      remaining: toInt(remaining),
      resetAt: toUnixSeconds(resetAt),
    })),
  };
}

/** The largest Int stands for what is beyond it: https://spec.graphql.org/draft/#sec-Int */
function toInt(number: number): number {
  return Math.min(number, 2_147_483_647);
}

export function createSchema(): GraphQLSchema {
  const typeDefs = readFileSync(new URL('../../schema/animal-store.graphql', import.meta.url), 'utf8');
  return makeExecutableSchema({ typeDefs, resolvers: resolvers as IResolvers });
}
