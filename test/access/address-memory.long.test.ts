import type { IncomingMessage } from 'node:http';
import { expect, it } from 'vitest';
import { ADDRESS_CAPACITY, KeylessSession } from '../../src/access/session.js';
import { createMemoryLedger } from '../../src/access/memory-ledger.js';
import { keyMissing } from '../../src/access/refusals.js';
import { readAddress } from '../../src/http/request.js';
import { collectGarbage } from '../support/garbage.js';

const MEGABYTE = 1_000_000;

it('bounds the memory of 401 responses, however many addresses a client forges and however long they are', async () => {
  const ledger = createMemoryLedger({ capacity: ADDRESS_CAPACITY });
  const observer = { admitted: () => undefined, refused: () => undefined };
  const before = measureHeap();
  for (let i = 0; i < 3 * ADDRESS_CAPACITY; i++) {
    const [high, middle, low] = [100 + (i >> 14), 100 + ((i >> 7) & 127), 100 + (i & 127)];
    const address =
      i % 2 === 0 ? `203.${high}.${middle}.${low}` : `2001:db8:${i >> 14}:${(i & 16_383).toString(16)}::1`;
    // Both the other addresses and the zone may have any length.
    const forwarded = `${'192.0.2.1,'.repeat(100)}${address}%${'z'.repeat(1_000)}`;
    const headers = { 'x-forwarded-for': Buffer.from(forwarded).toString() };
    const { network } = readAddress({ headers, socket: {} } as unknown as IncomingMessage, true);
    const session = new KeylessSession(ledger, network, keyMissing, observer, false);
    await session.requireKey().catch(() => undefined);
  }
  const used = measureHeap() - before;
  expect(ledger.list()).toHaveLength(ADDRESS_CAPACITY);
  expect(used).toBeLessThan(30 * MEGABYTE);
});

function measureHeap(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}
