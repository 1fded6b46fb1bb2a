import { Histogram, Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { Count, Durations, Family } from '../../src/observability/series.js';

const linesOf = async (registry: Registry): Promise<string[]> =>
  (await registry.metrics()).split('\n').filter((line) => line !== '');

describe('a family of durations', () => {
  it('is written as a histogram of prom-client with the same buckets would be', async () => {
    const ours = new Registry();
    const family = new Family((route: string, status: number) => new Durations({ route, status: String(status) }));
    family.register(ours, 'histogram', 'some_duration_seconds', 'Some duration');
    family.find('/a', 200).add(0);
    const bounds = (await linesOf(ours))
      .map((line) => /le="([\d.]+)"/.exec(line)?.[1])
      .filter((bound) => bound !== undefined)
      .map(Number);

    const theirs = new Registry();
    const histogram = new Histogram({
      name: 'some_duration_seconds',
      help: 'Some duration',
      labelNames: ['route', 'status'],
      buckets: bounds,
      registers: [theirs],
    });
    histogram.observe({ route: '/a', status: 200 }, 0);
    for (const seconds of [...bounds, 0.0001, 0.00051, 0.003, 0.3, 9.99, 10.01, 3600]) {
      for (const [route, status] of [['/a', 200] as const, ['/a', 500] as const, ['/b', 200] as const]) {
        family.find(route, status).add(seconds);
        histogram.observe({ route, status }, seconds);
      }
    }
    const lines = await linesOf(ours);
    expect(lines).toEqual(await linesOf(theirs));
    expect(lines.filter((line) => line.startsWith('some_duration_seconds_count'))).toHaveLength(3);
  });

  it('writes label values that need escaping', async () => {
    const registry = new Registry();
    const family = new Family((route: string) => new Count({ route }));
    family.register(registry, 'counter', 'some_total', 'Some').find('a"b\\c\nd').add(2);
    expect(await linesOf(registry)).toContain('some_total{route="a\\"b\\\\c\\nd"} 2');
  });

  it('makes one series for equal label values, and apart those that differ in one', () => {
    const family = new Family(
      (first: string, second: string | undefined, third: number | undefined) =>
        new Count({ first, second: String(second), third: String(third) }),
    );
    const values = [['a'], ['a', 'b'], ['a', 'b', 1], ['a', 'b', 2], ['b', 'a', 1]] as const;
    const series = values.map(([first, second, third]) => family.find(first, second, third));
    expect(new Set(series).size).toBe(values.length);
    expect(values.map(([first, second, third]) => family.find(first, second, third))).toEqual(series);
  });
});
