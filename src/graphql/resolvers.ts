import type { Allowance } from '../access/visit.js';
import { toUnixSeconds } from '../http/limit-headers.js';
import type { Int64 } from '../pets/int64.js';
import { notFound, type Pet } from '../pets/pet.js';
import type { OperationContext } from './context.js';
import { toNewPet, toPetId, toPetQuery } from './field-arguments.js';
import type { RateLimit, Resolvers } from './generated/resolver-types.js';
import { ID } from './id-scalar.js';
import { findPosition } from './operation.js';

/** Resolvers of the fields that are not plain properties, and the values that enums and IDs have inside. */
export const resolvers: Resolvers & { ID: typeof ID } = {
  Query: {
    pets: async (_, args, { loader }) => loader.list(toPetQuery(args)),
    pet: async (_, args, { loader }) => found(toPetId(args), loader),
    rateLimit: async (_, _args, context, info) => {
      // What is left is asked first: how quick the guard is must not decide whether an upstream has answered meanwhile.
      const [allowance] = await Promise.all([context.visit.allowance(), context.guardRateLimit(context, info)]);
      return allowance === undefined ? null : toRateLimit(allowance);
    },
  },
  Mutation: {
    addPet: async (_, args, { source, call, keyOfAddition }, info) =>
      source.add(toNewPet(args), call, keyOfAddition?.(findPosition(info))),
  },
  PetStatus: { AVAILABLE: 'available', PENDING: 'pending', SOLD: 'sold' },
  Plan: { FREE: 'free', PRO: 'pro', BUSINESS: 'business', ENTERPRISE: 'enterprise' },
  ID,
};

async function found(id: Int64, loader: OperationContext['loader']): Promise<Pet> {
  const pet = await loader.find(id);
  if (pet === undefined) throw notFound(id);
  return pet;
}

function toRateLimit({ plan, windows }: Allowance): RateLimit {
  return {
    plan: plan ?? null,
    windows: windows.map(({ seconds, limit, remaining, resetAt }) => ({
      seconds: seconds === null ? null : toInt(seconds),
      limit: toInt(limit),
      remaining: toInt(remaining),
      resetAt: toInt(toUnixSeconds(resetAt)),
    })),
  };
}

/** What is more than an Int can say is said as the most that it can: https://spec.graphql.org/draft/#sec-Int */
function toInt(number: number): number {
  return Math.min(number, 2_147_483_647);
}
