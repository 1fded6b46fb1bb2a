import { afterAll, beforeAll, expect, it } from 'vitest';
import { startGateway, startProxyBefore, type Gateway } from '../support/gateway.js';
import { send, startScriptedUpstream } from '../support/scripted-upstream.js';

const LIST = '{ pets(limit: 2) { name } }';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway('proxy');
  await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10)`);
});
afterAll(() => gateway.close());

/** The statuses of the lists that the upstream has sent. */
const statuses = (): unknown[] =>
  (gateway.upstream?.logged ?? []).filter(({ path }) => path === '/v1/pets').map(({ status }) => status);

it('a list that has not changed is not sent again, but charged', async () => {
  const [{ key }, other] = [await gateway.createKey(), await gateway.createKey()];
  const first = await gateway.graphql(LIST, { key });
  const again = await gateway.graphql(LIST, { key });
  expect(again.data).toEqual({ pets: [{ name: 'Bella' }] });
  const [before, after] = [first, again].map(({ headers }) => Number(headers.get('x-ratelimit-remaining')));
  expect(after).toBe((before as number) - 1);
  await expect.poll(statuses).toEqual([200, 304]);

  await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Milo', 20)`);
  expect((await gateway.graphql(LIST, { key })).data).toEqual({ pets: [{ name: 'Bella' }, { name: 'Milo' }] });
  await gateway.graphql(LIST, { key: other.key });
  await expect.poll(statuses).toEqual([200, 304, 200, 200]);
});

it('a weak tag is not used, and a 304 that nobody asked for is an error', async () => {
  const upstream = await startScriptedUpstream((_, response) => send(response, 200, [], { ETag: 'W/"1"' }));
  const proxy = await startProxyBefore(upstream.url);
  expect((await proxy.graphql(LIST, { key: 'k' })).data).toEqual({ pets: [] });
  upstream.play((_, response) => response.writeHead(304).end());
  const { errors } = await proxy.graphql(LIST, { key: 'k' });
  expect(upstream.seen.map(({ headers }) => headers['if-none-match'])).toEqual([undefined]);
  expect(errors?.[0]?.extensions.code).toBe('UPSTREAM_ERROR');
  await proxy.close();
  await upstream.close();
});

it('without a tag, each list is that of its own response, lowest id first', async () => {
  const upstream = await startScriptedUpstream();
  const proxy = await startProxyBefore(upstream.url);
  for (const [ids, sorted] of [
    ['9,10,2', '2,9,10'],
    ['9,10,2', '2,9,10'],
    ['1,3', '1,3'],
    ['', ''],
    ['9,10,2', '2,9,10'],
  ] as const) {
    const animals = ids.split(',').filter(Boolean);
    const body = animals.map((id) => `{"id":${id},"name":"Animal ${id}","categoryId":1}`);
    upstream.play((_, response) => send(response, 200, `[${body.join(',')}]`));
    const { data } = await proxy.graphql('{ pets { id } }', { key: 'k' });
    expect((data.pets as { id: string }[]).map(({ id }) => id).join()).toBe(sorted);
  }
  upstream.play((_, response) => send(response, 200, '{"id":1}'));
  const { errors } = await proxy.graphql('{ pets { id } }', { key: 'k' });
  expect(errors?.[0]?.extensions.code).toBe('UPSTREAM_ERROR');
  await proxy.close();
  await upstream.close();
});
