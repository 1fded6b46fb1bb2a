import { expect, it } from 'vitest';
import { loadConfig } from '../../src/config.js';
import { findBrownout, findLookupRefusal } from '../../src/pets/removal.js';

it.each([
  ['2030-11-05T09:00Z/PT15M', '2030-11-05T09:00Z', '2030-11-05T09:15Z'],
  ['2030-11-05T00:30+01:00/PT1H', '2030-11-04T23:30Z', '2030-11-05T00:30Z'],
  ['2030-11-05T22:30-05:30/PT1H', '2030-11-06T04:00Z', '2030-11-06T05:00Z'],
  ['2030-11-05T09:00:01Z/PT90M', '2030-11-05T09:00:01Z', '2030-11-05T10:30:01Z'],
  ['2030-02-28T09:00Z/P1DT2H', '2030-02-28T09:00Z', '2030-03-01T11:00Z'],
  ['2030-11-05T09:00:04.407Z/PT30S', '2030-11-05T09:00:04.407Z', '2030-11-05T09:00:34.407Z'],
  ['2030-11-05T09:00:00.5+01:00/PT1M15S', '2030-11-05T08:00:00.500Z', '2030-11-05T08:01:15.500Z'],
  ['2030-11-05T09:00Z/P1W', '2030-11-05T09:00Z', '2030-11-12T09:00Z'],
])('lookups are refused from the start of %s until its end, exclusive', (text, from, until) => {
  const { brownouts } = loadConfig({ BROWNOUTS: text });
  const [start, end] = [Date.parse(from), Date.parse(until)];
  const moments = [start - 1, start, end - 1, end];
  const refusal = `Until ${new Date(end).toISOString()}, lookups by id answer as after their removal, as a rehearsal.`;
  expect(moments.map((now) => findLookupRefusal(brownouts, now))).toEqual([undefined, refusal, refusal, undefined]);
  expect(moments.map((now) => findBrownout(brownouts, now)?.text)).toEqual([text, text, text, undefined]);
});

it('brownouts may overlap, in any order, and lookups are refused in each', () => {
  const [first, within, across] = ['09:00Z/PT1H', '09:30Z/PT15M', '09:50Z/PT1H'].map((text) => `2030-11-05T${text}`);
  const { brownouts } = loadConfig({ BROWNOUTS: `${across},${within},${first}` });
  const times = ['08:59:59.999', '09:00', '09:30', '09:45', '09:59:59.999', '10:00', '10:49:59.999', '10:50'];
  const found = times.map((time) => {
    const now = Date.parse(`2030-11-05T${time}Z`);
    return [findBrownout(brownouts, now)?.text, /T(\d\d:\d\d)/.exec(findLookupRefusal(brownouts, now) ?? '')?.[1]];
  });
  expect(found).toEqual([
    [first, undefined],
    [first, '10:00'],
    [first, '10:00'],
    [first, '10:00'],
    [first, '10:50'],
    [across, '10:50'],
    [across, '10:50'],
    [undefined, undefined],
  ]);
});
