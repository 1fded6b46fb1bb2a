import { expect, it } from 'vitest';
import { formatTable } from '../../src/cli/keys-output.js';

it('prints columns that begin at the same place, and never cuts a text', () => {
  const label = 'x'.repeat(300);
  expect(
    formatTable([
      { id: 'key_1', label, n: 7 },
      { id: 'k', label: null, n: 12345 },
    ]).split('\n'),
  ).toEqual([`id     label${' '.repeat(295)}  n`, `key_1  ${label}  7`, `k      ${' '.repeat(300)}  12345`]);
});

it('prints many rows', () => {
  const rows = Array.from({ length: 200_000 }, (_, n) => ({ n }));
  expect(formatTable(rows)).toMatch(/^n\n0\n1\n/);
});
