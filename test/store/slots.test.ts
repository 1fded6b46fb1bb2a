import { expect, it } from 'vitest';
import { createSlots } from '../../src/store/slots.js';

it('a slot that pauses after a write leaves the writes that are allowed to others', async () => {
  const slots = createSlots(10);
  for (let count = 0; count < 8; count += 1) await slots.take(true, 0);
  await expect(slots.take(true, 10)).rejects.toMatchObject({ code: 'overloaded' });
  for (let count = 0; count < 8; count += 1) slots.free(true, 60_000);
  expect([slots.take(true, 10), slots.take(true, 10), slots.used()]).toEqual([undefined, undefined, 10]);
  await expect(slots.take(false, 10)).rejects.toMatchObject({ code: 'overloaded' });
});
