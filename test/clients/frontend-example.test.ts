import { expect, it } from 'vitest';
import { toRefusal } from '../../examples/frontend/src/refusal.js';

it.each([
  [403, { kind: 'failure', text: 'No.' }],
  [500, { kind: 'wait', text: 'The store is busy.', seconds: 5 }],
])('the page explains the status %i of the store behind a gateway', (status, expected) => {
  const extensions = { code: 'UPSTREAM_ERROR', error: { code: 'x', message: 'No.', status } };
  const thrown = Object.assign(new Error('No.'), { errors: [{ message: 'No.', extensions }] });
  expect(toRefusal(thrown)).toEqual(expected);
});
