import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LineBlocks } from '../../src/observability/line-blocks.js';

/** A destination that keeps what it was given as it is now, and tells when it is told to that it is written. */
function createDestination() {
  const blocks: { block: Buffer; then: string }[] = [];
  let drain = (): void => undefined;
  let flushes = 0;
  return {
    write: (block: Buffer) => blocks.push({ block, then: block.toString() }),
    flush: (done?: () => void) => done?.(),
    flushSync: () => (flushes += 1),
    on: (_event: 'drain', listener: () => void) => (drain = listener),
    blocks,
    drain: () => drain(),
    text: () => blocks.map(({ then }) => then).join(''),
    flushes: () => flushes,
  };
}

describe('lines in blocks', () => {
  it('are passed on whole and in order, in blocks of 64 KiB at the most', () => {
    const destination = createDestination();
    const lines = new LineBlocks(destination);
    const texts = Array.from({ length: 8_000 }, (_, i) => `${i} ハチ é ${'x'.repeat(i % 97)}\n`);
    for (const text of texts) lines.write(text);
    lines.flush();
    expect(destination.text()).toBe(texts.join(''));
    expect(destination.blocks.length).toBeGreaterThan(5);
    for (const { block } of destination.blocks) expect(block.length).toBeLessThanOrEqual(65_536);
  });

  it('may be longer than a block', () => {
    const destination = createDestination();
    const lines = new LineBlocks(destination);
    const texts = ['first\n', `${'é'.repeat(50_000)}\n`, 'last\n'];
    for (const text of texts) lines.write(text);
    lines.flushSync();
    expect(destination.text()).toBe(texts.join(''));
    expect(destination.flushes()).toBe(1);
  });

  it('do not wait for a block to be full', async () => {
    const destination = createDestination();
    new LineBlocks(destination).write('alone\n');
    expect(destination.blocks).toEqual([]);
    while (destination.blocks.length === 0) await sleep(5);
    expect(destination.text()).toBe('alone\n');
  });

  it('are never written over before they are written down', () => {
    const destination = createDestination();
    const lines = new LineBlocks(destination);
    const fill = (letter: string): void => {
      lines.write(`${letter.repeat(5_000)}\n`);
      lines.flush();
    };
    for (const letter of 'abc') fill(letter);
    for (const { block, then } of destination.blocks) expect(block.toString()).toBe(then);
    destination.drain();
    for (const letter of 'defghijklmno') fill(letter);
    for (const { block, then } of destination.blocks.slice(3)) expect(block.toString()).toBe(then);
    const memories = new Set(destination.blocks.map(({ block }) => block.buffer));
    expect(memories.size).toBeLessThan(destination.blocks.length);
  });
});
