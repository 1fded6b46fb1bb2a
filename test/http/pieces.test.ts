import { expect, it } from 'vitest';
import { Pieces } from '../../src/http/pieces.js';

const BODY = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 251));

/** Cuts the body into pieces of these lengths, again and again. */
function cut(...lengths: number[]): Buffer[] {
  const pieces: Buffer[] = [];
  for (let start = 0; start < BODY.length; start += pieces.at(-1)?.length ?? 0)
    pieces.push(BODY.subarray(start, start + (lengths[pieces.length % lengths.length] ?? 1)));
  return pieces;
}

it.each([[1], [4_095], [4_096], [4_097], [16_383], [16_384], [65_536], [300_000], [1, 65_536], [65_536, 1, 5_000]])(
  'a body in pieces of %s and %s bytes is put together again',
  (...lengths) => {
    const pieces = new Pieces();
    for (const piece of cut(...lengths)) pieces.add(piece);
    expect(pieces.length).toBe(BODY.length);
    expect(pieces.join().equals(BODY)).toBe(true);
  },
);

it('one piece is not copied, and none is an empty body', () => {
  const pieces = new Pieces();
  expect(pieces.join()).toHaveLength(0);
  pieces.add(BODY);
  expect(pieces.join()).toBe(BODY);
});
