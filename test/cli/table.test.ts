import { describe, expect, it } from 'vitest';
import { formatTable } from '../../src/cli/keys-output.js';

describe('a table', () => {
  const headings = ['key', 'label', 'operation', 'requests'];
  const rows = [
    ['key_one', 'the shop', 'GET /v1/pets', 12],
    ['key_two', '', 'ShopWindow', 3],
  ];

  it('has columns, with numbers on the right', () => {
    expect(formatTable(headings, rows, 80).split('\n')).toEqual([
      'key      label     operation     requests',
      'key_one  the shop  GET /v1/pets        12',
      'key_two            ShopWindow           3',
    ]);
  });

  it('cuts free text to fit the terminal', () => {
    expect(formatTable(headings, rows, 36).split('\n')).toEqual([
      'key      label    operati…  requests',
      'key_one  the sh…  GET /v1…        12',
      'key_two           ShopWin…         3',
    ]);
  });

  it('becomes blocks of lines where columns do not fit', () => {
    expect(formatTable(headings, rows, 25).split('\n')).toEqual([
      'key        key_one',
      'label      the shop',
      'operation  GET /v1/pets',
      'requests   12',
      '',
      'key        key_two',
      'operation  ShopWindow',
      'requests   3',
    ]);
  });
});
