import { afterAll, beforeAll, expect, it } from 'vitest';
import { startProxyBefore, type ProxyOnly } from '../support/gateway.js';
import { answerAnimals, send, startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.js';

const NO_PAGING = 'The animal store behind this gateway has no paging: leave out after.';
const animals = (...ids: number[]) => ids.map((id) => ({ id, name: `Animal ${id}`, categoryId: 1 }));

let upstream: ScriptedUpstream;
let gateway: ProxyOnly;

beforeAll(async () => {
  upstream = await startScriptedUpstream();
  gateway = await startProxyBefore(upstream.url);
});
afterAll(async () => {
  await gateway.close();
  await upstream.close();
});

it('sends `after` upstream as it is, and nothing without it', async () => {
  upstream.play((_, response) => send(response, 200, animals()));
  const after = '9007199254740993';
  const query = `query ($v: ID) {
    a: pets(limit: 3, status: SOLD, after: "${after}") { id } b: pets(after: -5) { id }
    c: pets(limit: 1, after: null) { id } d: pets(limit: 2, after: $v) { id }
  }`;
  const { errors } = await gateway.graphql(query, { key: 'sends' });
  expect(errors).toBeUndefined();
  expect(upstream.seen.map(({ path }) => path).sort()).toEqual([
    '/pets?limit=1',
    '/pets?limit=2',
    '/pets?limit=20&after=-5',
    `/pets?limit=3&status=sold&after=${after}`,
  ]);
});

it('sorts a page and passes on at most `limit` of its animals', async () => {
  upstream.play((_, response) => send(response, 200, animals(9, 7, 8)));
  const { data } = await gateway.graphql('{ pets(limit: 2, after: 6) { id } }', { key: 'sorts' });
  expect(data.pets).toEqual([{ id: '7' }, { id: '8' }]);
});

it('finds the animals of a status in a whole list, and fails if there may be more of them', async () => {
  const statuses = ['sold', 'available', undefined, 'sold'];
  const four = animals(1, 2, 3, 4).map((animal, i) => ({ ...animal, status: statuses[i] }));
  upstream.play((_, response) => send(response, 200, four));
  const query = `{
    few: pets(limit: 3, status: SOLD) { id }
    full: pets(limit: 4, status: SOLD) { id }
    all: pets(limit: 5, status: SOLD) { id }
  }`;
  const { data, errors } = await gateway.graphql(query, { key: 'ignores status' });
  expect(data).toEqual({ few: [{ id: '1' }, { id: '4' }], full: null, all: [{ id: '1' }, { id: '4' }] });
  expect(errors).toMatchObject([{ path: ['full'], extensions: { code: 'UPSTREAM_ERROR' } }]);
});

it.each([
  ['answers 400', 400, { code: 'invalid_request', message: 'Unknown parameter "after".', status: 400 }],
  ['answers 400 without an Error body', 400, {}],
  ['starts with the lowest id again', 200, animals(1, 2, 9)],
  ['starts with the same id', 200, animals(8, 7)],
  ['ignores the status filter, too', 200, animals(1), '7, status: SOLD'],
])('fails with UPSTREAM_ERROR if the upstream %s', async (_, status, body, after = '7') => {
  upstream.play((request, response) =>
    request.path.includes('after') ? send(response, status, body) : answerAnimals(request, response),
  );
  // Also the second time, when the body is known.
  for (let time = 0; time < 2; time++) {
    const query = `{ first: pets { id } next: pets(after: ${after}) { id } }`;
    const { data, errors } = await gateway.graphql(query, { key: `lacks ${status}` });
    expect(data).toEqual({ first: [{ id: '1' }], next: null });
    expect(errors).toHaveLength(1);
    expect(errors?.[0]).toMatchObject({ message: NO_PAGING, path: ['next'], extensions: { code: 'UPSTREAM_ERROR' } });
    // A 400 for another reason can be told by the upstream's own body.
    expect(errors?.[0]?.extensions.error).toEqual('code' in (body as object) ? body : undefined);
  }
});

it.each([
  [404, 'NOT_FOUND'],
  [422, 'BAD_USER_INPUT'],
  [500, 'UPSTREAM_ERROR'],
])('passes on a %i like without `after`', async (status, code) => {
  const body = { code: 'their_own', message: 'In their own words.', status };
  upstream.play((_, response) => send(response, status, body));
  const { errors } = await gateway.graphql('{ pets(after: 7) { id } }', { key: `passes ${status}` });
  expect(errors?.[0]).toMatchObject({ message: body.message, extensions: { code, error: body } });
});

it('passes on a 400 without `after` as BAD_USER_INPUT', async () => {
  const body = { code: 'their_own', message: 'In their own words.', status: 400 };
  upstream.play((_, response) => send(response, 400, body));
  const { errors } = await gateway.graphql('{ pets(after: null) { id } }', { key: 'without' });
  expect(errors?.[0]).toMatchObject({ message: body.message, extensions: { code: 'BAD_USER_INPUT', error: body } });
});
