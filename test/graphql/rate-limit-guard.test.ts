import type * as Package from 'graphql-rate-limit';
import { afterEach, expect, it, vi } from 'vitest';
import type { Session } from '../../src/access/session.js';
import { createRateLimitGuard } from '../../src/graphql/rate-limit.js';
import { fakeClocks } from '../support/fake-clocks.js';

const asked = vi.hoisted(() => vi.fn());
vi.mock('graphql-rate-limit', async (load) => {
  const { getGraphQLRateLimiter: create } = await load<typeof Package>();
  const getGraphQLRateLimiter: typeof create = (config) => {
    const limit = create(config);
    return (...args) => {
      asked();
      return limit(...args);
    };
  };
  return { getGraphQLRateLimiter };
});

afterEach(() => vi.useRealTimers());

it('a key that has used up its 60 a minute is refused at little cost until it has some again', async () => {
  // Both clocks agree.
  fakeClocks(performance.timeOrigin);
  const guard = createRateLimitGuard();
  const use = async (times: number) => {
    const uses = Array.from({ length: times }, () => guard({ keyId: 'key' } as Session));
    const outcomes = await Promise.allSettled(uses);
    return outcomes.filter(({ status }) => status === 'fulfilled').length;
  };
  expect(await use(10)).toBe(10);
  vi.advanceTimersByTime(20_000);
  expect(await use(100)).toBe(50);
  await expect(guard({ keyId: 'key' } as Session)).rejects.toMatchObject({ retryAfter: 40 });
  expect(asked).toHaveBeenCalledTimes(61);
  vi.advanceTimersByTime(40_001);
  expect(await use(100)).toBe(10);
  vi.advanceTimersByTime(20_000);
  expect(await use(100)).toBe(50);
});
