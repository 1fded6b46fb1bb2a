import { expect, it } from 'vitest';

/** Loaded by its address, because it imports the client package, whose types exist only after its build. */
const page = new URL('../../examples/frontend/src/refusal.ts', import.meta.url).href;
const { toRefusal } = (await import(page)) as { toRefusal: (thrown: Error) => unknown };

it.each([
  [403, { kind: 'failure', text: 'No.' }],
  [500, { kind: 'wait', text: 'The store is busy.', seconds: 5 }],
])('the page explains the status %i of the store behind a gateway', (status, expected) => {
  const extensions = { code: 'UPSTREAM_ERROR', error: { code: 'x', message: 'No.', status } };
  const thrown = Object.assign(new Error('No.'), { errors: [{ message: 'No.', extensions }] });
  expect(toRefusal(thrown)).toEqual(expected);
});
