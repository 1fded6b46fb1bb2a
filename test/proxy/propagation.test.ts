import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startProxyBefore, type ProxyOnly } from '../support/gateway.js';
import { answerAnimals, send, startScriptedUpstream, type ScriptedUpstream } from '../support/scripted-upstream.js';

describe('a request from a gateway to its upstream', () => {
  let upstream: ScriptedUpstream;
  let gateway: ProxyOnly;

  beforeAll(async () => {
    upstream = await startScriptedUpstream();
    gateway = await startProxyBefore(upstream.url, { LOG_LEVEL: 'trace' });
  });
  beforeEach(() => upstream.play(answerAnimals));
  afterAll(async () => {
    await gateway.close();
    await upstream.close();
  });

  it("carries the unchanged key, the request id and the client's name, and no other header of the client", async () => {
    const { status } = await gateway.graphql('{ pets { id } }', {
      headers: {
        Authorization: 'bEaReR some.Key~1',
        'X-Request-Id': 'request-1',
        'apollographql-client-name': 'shop\u009b1m \u00fc',
        'apollographql-client-version': '2',
        Cookie: 'session=1',
        'X-Custom': 'no',
        'User-Agent': 'client',
      },
    });
    expect(status).toBe(200);
    const { headers } = upstream.seen[0] ?? {};
    expect(headers).toMatchObject({ authorization: 'bEaReR some.Key~1' });
    expect(headers?.['user-agent']).toMatch(/^animal-store-gateway\/\d+\.\d+\.\d+/);
    // The id of the client's request, with a part that no other upstream request has.
    expect(headers?.['x-request-id']).toMatch(/^request-1\.[\w.-]+$/);
    expect(headers?.['apollographql-client-name']).toBe('shop 1m \u00fc');
    expect(Object.keys(headers ?? {}).sort()).toEqual(
      [
        'accept',
        'accept-encoding',
        'apollographql-client-name',
        'authorization',
        'connection',
        'host',
        'user-agent',
        'x-request-id',
      ].sort(),
    );
  });

  it("carries the gateway's name also when the gateway asks for itself", async () => {
    const agents: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      agents.push(request.headers['user-agent']);
      send(response, 401, { code: 'unauthorized', message: 'No key.', status: 401 });
    });
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
    const other = await startProxyBefore(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`);
    expect(agents).toEqual([expect.stringMatching(/^animal-store-gateway\/\d+\.\d+\.\d+/)]);
    await other.close();
    await new Promise((closed) => server.close(closed));
  });

  it('carries no client name that contains the key', async () => {
    await gateway.graphql('{ pets { id } }', {
      key: 'secret-1',
      headers: { 'apollographql-client-name': 'my secret-1' },
    });
    expect(upstream.seen[0]?.headers['apollographql-client-name']).toBe('(redacted)');
  });

  it('carries the arguments in REST format, with exact identifiers and without an omitted status', async () => {
    await gateway.graphql('{ pets { id } sold: pets(limit: 3, status: SOLD) { id } none: pets(status: null) { id } }', {
      key: 'a',
    });
    expect(upstream.seen.map(({ path }) => path).sort()).toEqual(['/pets?limit=20', '/pets?limit=3&status=sold']);
    upstream.seen.length = 0;
    await gateway.graphql(
      'mutation { a: addPet(input: { name: "Ä\\"", categoryId: 9223372036854775807 }) { id } b: addPet(input: { name: "B", categoryId: "-5", status: PENDING }) { id } }',
      { key: 'a' },
    );
    expect(upstream.seen.map(({ body }) => body)).toEqual([
      '{"name":"Ä\\"","categoryId":9223372036854775807}',
      '{"name":"B","categoryId":-5,"status":"pending"}',
    ]);
  });

  it('is not sent without a key, for refused arguments or for free operations', async () => {
    const keyless = await gateway.graphql('{ pets { id } }');
    expect(keyless.status).toBe(401);
    expect(keyless.headers.get('www-authenticate')).toBe('Bearer realm="animal-store"');
    await gateway.graphql('{ pet(id: "x") { id } pets(limit: 500) { id } rateLimit { plan } __typename }', {
      key: 'a',
    });
    expect(upstream.seen).toEqual([]);
  });

  it('does not follow redirects', async () => {
    upstream.play((_, response) => send(response, 302, '', { Location: `${upstream.url}/pets/1` }));
    const { data, errors } = await gateway.graphql('{ pets { id } }', { key: 'a' });
    expect(data).toEqual({ pets: null });
    expect(errors?.[0]?.extensions.code).toBe('UPSTREAM_ERROR');
    expect(upstream.seen).toHaveLength(1);
  });

  it('never reveals the key in the log, the metrics or an error', async () => {
    const key = 'pets_secret-of-this-test';
    upstream.play((_, response) => send(response, 500, 'no Error body'));
    const { text } = await gateway.graphql('{ pets { id } pet(id: 1) { id } }', { key });
    const metrics = await (await gateway.fetch('/metrics')).text();
    expect(gateway.logged.length).toBeGreaterThan(0);
    for (const place of [text, metrics, JSON.stringify(gateway.logged)]) expect(place).not.toContain(key);
  });

  it.each([403, 409, 500, 503])(
    'is logged with only the status if the Error has status %i and quotes the key',
    async (status) => {
      // Failures with one code share one line a second, and the others are counted a second later.
      await sleep(2_200);
      const key = 'pets_quoted-by-the-upstream';
      upstream.play((_, response) =>
        send(response, status, { code: 'no', message: `${key} may not do this.`, status }),
      );
      const before = gateway.logged.length;
      const { errors } = await gateway.graphql('{ pets { id } }', { key });
      expect(errors?.[0]?.message).toBe(`${key} may not do this.`);
      const lines = JSON.stringify(gateway.logged.slice(before));
      expect(lines).toContain(`the upstream answered ${status}`);
      expect(lines).not.toContain(key);
    },
  );
});
