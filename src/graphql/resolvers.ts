import type { Allowance } from '../access/session.js';
import { toUnixSeconds } from '../clock.js';
import { parseInt64 } from '../pets/int64.js';
import { parseNewPet, parsePetQuery } from '../pets/pet.js';
import type { RateLimit, Resolvers } from './generated/resolver-types.js';
import { ID } from './id-scalar.js';

/** The resolvers of the root fields, and the values that enums and IDs have inside. */
export const resolvers: Resolvers & { ID: typeof ID } = {
  Query: {
    pets: (_, args, { loader }) => loader.list(parsePetQuery(args)),
    pet: (_, { id }, { loader }) => loader.get(parseInt64(id, 'id')),
    rateLimit: async (_, _args, { session, guardRateLimit }) => {
      // What is left is asked first: how long the guard takes must not decide whether an upstream has answered
      // meanwhile.
      const [allowance] = await Promise.all([session.allowance(), guardRateLimit(session)]);
      return allowance === undefined ? null : toRateLimit(allowance);
    },
  },
  Mutation: {
    addPet: (_, { input }, { source, call, keyOfAddition }, { position }) =>
      source.add(parseNewPet(input), call, keyOfAddition?.(position)),
  },
  PetStatus: { AVAILABLE: 'available', PENDING: 'pending', SOLD: 'sold' },
  Plan: { FREE: 'free', PRO: 'pro', BUSINESS: 'business', ENTERPRISE: 'enterprise' },
  ID,
};

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

/** A number beyond Int becomes the largest Int: https://spec.graphql.org/draft/#sec-Int */
function toInt(number: number): number {
  return Math.min(number, 2_147_483_647);
}
