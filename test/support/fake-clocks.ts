import { vi } from 'vitest';

/** Fakes the clocks. A queue of an earlier file of this worker may still measure the event loop, which would be faked too. */
export function fakeClocks(now: number): void {
  const measure = performance.eventLoopUtilization.bind(performance);
  vi.useFakeTimers({ now, toFake: ['Date', 'performance'] });
  performance.eventLoopUtilization = measure;
}
