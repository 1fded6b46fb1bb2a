import { graphql } from 'graphql';
import { makeExecutableSchema } from '@graphql-tools/schema';
import { expect, it } from 'vitest';
import type { Allowance } from '../../src/access/session.js';
import { StoreError } from '../../src/errors.js';
import type { OperationContext } from '../../src/graphql/types.js';
import { resolvers } from '../../src/graphql/resolvers.js';

const WINDOW = { name: 'minute', seconds: 60, limit: 60, remaining: 41, resetAt: 0 };

/** Runs the field in a minimal schema, with a guard and an allowance that the test controls. */
function ask(context: {
  allowance: () => Allowance | undefined | Promise<Allowance>;
  guardRateLimit: () => Promise<void>;
}) {
  const schema = makeExecutableSchema({
    typeDefs: `type Query { rateLimit: RateLimit } type RateLimit { windows: [Window!]! } type Window { remaining: Int! }`,
    resolvers: { Query: { rateLimit: resolvers.Query?.rateLimit } },
  });
  const { allowance, guardRateLimit } = context;
  const priced = { cost: 1, isDryRun: false };
  const contextValue = { priced, session: { allowance }, guardRateLimit } as unknown as OperationContext;
  return graphql({ schema, source: '{ rateLimit { windows { remaining } } }', contextValue });
}

it('reads the allowance before it waits for the guard', async () => {
  let learned: Allowance | undefined;
  const { data, errors } = await ask({
    allowance: () => learned,
    guardRateLimit: () => {
      learned = { plan: 'free', windows: [WINDOW] };
      return Promise.resolve();
    },
  });
  expect(errors).toBeUndefined();
  expect(data).toEqual({ rateLimit: null });
});

it('returns the refusal of the guard when the allowance fails too', async () => {
  const refusal = new StoreError('field_rate_limited', 'Too often.');
  const { data, errors } = await ask({
    allowance: () =>
      new Promise((_, reject) => {
        setImmediate(() => reject(new StoreError('unavailable', 'Away.')));
      }),
    guardRateLimit: () => Promise.reject(refusal),
  });
  expect(data).toEqual({ rateLimit: null });
  expect(errors?.map(({ originalError }) => originalError)).toEqual([refusal]);
});
