import { afterAll, beforeAll, expect, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';

interface Field {
  readonly key: string;
  readonly value: string;
  readonly disabled?: true;
}
interface Item {
  readonly name: string;
  readonly request: {
    readonly method: string;
    readonly header: readonly Field[];
    readonly url: {
      readonly raw: string;
      readonly path: readonly string[];
      readonly query: readonly Field[];
      readonly variable: readonly Field[];
    };
    readonly body?: { readonly raw: string };
  };
}

let gateway: Gateway;
let key: string;

beforeAll(async () => {
  gateway = await startGateway('server', { NODE_ENV: 'development' });
  ({ key } = await gateway.createKey());
});
afterAll(() => gateway.close());

it('the collection for Postman and Bruno has a request for each operation of the OpenAPI document, and all work', async () => {
  const response = await gateway.fetch('/collection.json');
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(await (await gateway.fetch('/reference')).text()).toContain('href="./collection.json"');
  const { item, auth } = (await response.json()) as { item: Item[]; auth: { type: string } };
  const { paths } = (await (await gateway.fetch('/v1/openapi.json')).json()) as { paths: Record<string, object> };
  expect(item).toHaveLength(Object.values(paths).flatMap((operations) => Object.keys(operations)).length);
  expect(auth.type).toBe('bearer');

  const statuses: [string, number][] = [];
  for (const { name, request } of item) {
    const { url, header, body, method } = request;
    const valueOf = (part: string): string =>
      part.startsWith(':') ? (url.variable.find((one) => `:${one.key}` === part)?.value ?? part) : part;
    expect(url.raw).toBe(`{{baseUrl}}/${url.path.join('/')}`);
    expect([...url.query, ...header].every(({ disabled }) => disabled)).toBe(true);
    const answer = await gateway.fetch(`/${url.path.map(valueOf).join('/')}`, {
      method,
      headers: { Authorization: `Bearer ${key}`, ...(body && { 'Content-Type': 'application/json' }) },
      ...(body && { body: body.raw }),
    });
    statuses.push([name, answer.status]);
  }
  expect(statuses).toEqual([
    ['List all animals', 200],
    ['Add an animal', 201],
    ['Get an animal', 200],
    ['Get what the key may and has left', 200],
    ['List what the key has used, the last day first', 200],
  ]);
});

it('a gateway has no collection, because it serves no REST', async () => {
  const proxy = await startGateway('proxy', { NODE_ENV: 'development' });
  expect((await proxy.fetch('/collection.json')).status).toBe(404);
  await proxy.close();
});
