import { createHash } from 'node:crypto';
import { unwatchFile } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pino from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startApp } from '../../src/app.js';
import { loadConfig } from '../../src/config.js';
import { startApollo, type Apollo } from '../../src/graphql/apollo.js';
import { openDocuments } from '../../src/graphql/documents.js';
import { createSchema } from '../../src/graphql/resolvers.js';
import type { HttpRequest } from '../../src/http/request.js';
import { scrape, sum } from '../observability/scrape.js';
import { startGateway, MODES, type Gateway, type GraphqlError } from '../support/gateway.js';
import { makeManifest, type Manifest } from '../support/manifest.js';

const hash = (text: string, algorithm = 'sha256'): string => createHash(algorithm).update(text).digest('hex');

const NAMES = 'query Names($limit: Int! = 5) { pets(limit: $limit) { name } }';
const ADD = 'mutation Add { addPet(input: { name: "Rex", categoryId: 1 }) { name } }';
const SKIP = 'query Skip($no: Boolean!) { pets { id @skip(if: $no) name } }';
const SCHEMA = 'query Schema { __schema { queryType { name } } ...F } fragment F on Query { __typename }';
/** As the client preset of graphql-codegen writes it, which hashes with SHA-1 unless told otherwise. */
const BY_HASH = Object.fromEntries([NAMES, ADD, SKIP, SCHEMA].map((text) => [hash(text, 'sha1'), text]));
/** As Apollo's generator writes it. */
const APOLLO = {
  format: 'apollo-persisted-query-manifest',
  version: 1,
  operations: [{ id: hash(NAMES), name: 'Names', type: 'query', body: NAMES }],
};
const UNTRUSTED = 'query Others { pets { id } }';
const COUNTED = 'graphql_server_untrusted_documents_total';

interface Answer {
  readonly data?: unknown;
  readonly errors?: readonly GraphqlError[];
}

describe.each(MODES)('trusted documents, %s store', (mode) => {
  let gateway: Gateway;
  let manifest: Manifest;
  let authorization: { Authorization: string };

  async function start(content: unknown, env: Record<string, string>): Promise<void> {
    manifest = await makeManifest(content);
    gateway = await startGateway(mode, { ...env, TRUSTED_DOCUMENTS: manifest.path });
    authorization = { Authorization: `Bearer ${(await gateway.createKey()).key}` };
    await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10), ('Milo', 20)`);
  }
  async function stop(): Promise<void> {
    await gateway.close();
    await manifest.remove();
  }

  function post(body: object, headers: Record<string, string> = authorization, method = 'POST'): Promise<Response> {
    return gateway.fetch('/graphql', {
      method,
      headers: { 'Content-Type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  }
  const get = (parameters: Record<string, string>, headers: Record<string, string> = authorization) =>
    gateway.fetch(`/graphql?${new URLSearchParams(parameters).toString()}`, { headers });
  const persisted = (sha256Hash: string) => ({ extensions: { persistedQuery: { version: 1, sha256Hash } } });
  const outcome = async (response: Response) => {
    const { data, errors } = (await response.json()) as Answer;
    return [response.status, data ?? errors?.map(({ extensions }) => extensions.code)];
  };
  const remaining = ({ headers }: Response): number => Number(headers.get('x-ratelimit-remaining'));

  describe('next to all others', () => {
    beforeAll(() => start(BY_HASH, {}));
    afterAll(stop);

    const both = { pets: [{ name: 'Bella' }, { name: 'Milo' }] };

    it.each([
      ['its id', hash(NAMES, 'sha1')],
      ['its SHA-256', hash(NAMES)],
      ['its SHA-256 with the prefix of the specification', `sha256:${hash(NAMES)}`],
    ])('are found by %s in POST, GET and QUERY', async (_, documentId) => {
      expect(await outcome(await post({ documentId, variables: { limit: 1 } }))).toEqual([
        200,
        { pets: [{ name: 'Bella' }] },
      ]);
      expect(await outcome(await get({ documentId }))).toEqual([200, both]);
      expect(await outcome(await post({ documentId }, authorization, 'QUERY'))).toEqual([200, both]);
    });

    it("are found by Apollo's hash in POST and GET, without having been registered", async () => {
      expect(await outcome(await post(persisted(hash(NAMES))))).toEqual([200, both]);
      const extensions = JSON.stringify(persisted(hash(NAMES)).extensions);
      expect(await outcome(await get({ extensions }))).toEqual([200, both]);
    });

    it('cost what they cost as text', async () => {
      const asText = remaining(await post({ query: NAMES }));
      expect(remaining(await post({ documentId: hash(NAMES) }))).toBe(asText - 1);
    });

    it('are subject to the rules for any other document', async () => {
      const documentId = hash(ADD);
      expect((await get({ documentId: hash(NAMES) }, {})).status).toBe(400);
      expect((await post({ documentId: hash(NAMES) }, {})).status).toBe(401);
      const mutation = await get({ documentId });
      expect([mutation.status, mutation.headers.get('allow')]).toEqual([405, 'POST']);
      expect(await outcome(await post({ documentId }))).toEqual([200, { addPet: { name: 'Rex' } }]);
      expect(await outcome(await post({ documentId: hash(SKIP), variables: { no: 'x' } }))).toEqual([
        422,
        ['BAD_USER_INPUT'],
      ]);
      const skipped = await outcome(await post({ documentId: hash(SKIP), variables: { no: true } }));
      expect(skipped[1]).toMatchObject({ pets: [{ name: 'Bella' }, { name: 'Milo' }, { name: 'Rex' }] });
    });

    it('need no key if they ask about the schema only', async () => {
      const schema = { __schema: { queryType: { name: 'Query' } }, __typename: 'Query' };
      for (const body of [{ documentId: hash(SCHEMA) }, persisted(hash(SCHEMA))])
        expect(await outcome(await post(body, {}))).toEqual([200, schema]);
      const noCsrf = { 'Apollo-Require-Preflight': 'yes' };
      expect(await outcome(await get({ documentId: hash(SCHEMA) }, noCsrf))).toEqual([200, schema]);
      const others = [{ documentId: hash(ADD) }, { documentId: 'unknown' }, persisted(hash('never sent'))];
      for (const body of [...others, { documentId: hash(SKIP), variables: { no: 'x' } }])
        expect(await outcome(await post(body, {}))).toEqual([401, ['UNAUTHENTICATED']]);
      expect((await get({ documentId: hash(ADD) }, noCsrf)).status).toBe(401);
    });

    it('are not found by an unknown id, nor by the id of another text', async () => {
      for (const body of [{ documentId: 'unknown' }, { documentId: hash(NAMES), query: UNTRUSTED }]) {
        expect(await outcome(await post(body))).toEqual([400, ['DOCUMENT_NOT_TRUSTED']]);
      }
      expect((await post({ documentId: 42 })).status).toBe(422);
    });

    it('are not needed for an unknown id with a text', async () => {
      expect((await post({ documentId: 'unknown', query: UNTRUSTED })).status).toBe(200);
    });

    it('leave automatic persisted queries as they are', async () => {
      expect((await outcome(await post(persisted(hash(UNTRUSTED)))))[1]).toEqual(['PERSISTED_QUERY_NOT_FOUND']);
      expect((await post({ query: UNTRUSTED, ...persisted(hash(UNTRUSTED)) })).status).toBe(200);
      expect((await post(persisted(hash(UNTRUSTED)))).status).toBe(200);
      expect((await post({ query: UNTRUSTED, ...persisted(hash(NAMES)) })).status).toBe(400);
    });

    it('are not kept under the hash of another document', async () => {
      const other = persisted(hash('a document of somebody else'));
      expect((await post({ query: NAMES, documentId: hash(NAMES), ...other })).status).toBe(200);
      expect((await outcome(await post(other)))[1]).toEqual(['PERSISTED_QUERY_NOT_FOUND']);
    });

    it('name the operations in the metrics, and others do not', async () => {
      const name = 'graphql_server_operation_duration_seconds_count';
      const before = sum(await scrape(gateway), name, { graphql_operation_name: 'Names', outcome: 'ok' }) ?? 0;
      await post({ documentId: hash(NAMES) });
      await post({ query: UNTRUSTED });
      const samples = await scrape(gateway);
      expect(sum(samples, name, { graphql_operation_name: 'Names', outcome: 'ok' })).toBe(before + 1);
      expect(sum(samples, name, { graphql_operation_name: 'Others' })).toBeUndefined();
    });
  });

  describe('only', () => {
    beforeAll(() => start(APOLLO, { TRUSTED_DOCUMENTS_ONLY: 'true', INTROSPECTION: 'true' }));
    afterAll(stop);

    it('run by id, by hash and as text', async () => {
      for (const body of [{ documentId: hash(NAMES) }, persisted(hash(NAMES)), { query: NAMES }]) {
        expect((await outcome(await post(body)))[0]).toBe(200);
      }
    });

    it.each([
      ['a valid document', { query: UNTRUSTED }],
      ['the same fields in another text', { query: `${NAMES} ` }],
      ['introspection', { query: '{ __schema { queryType { name } } }' }],
      ['what is not GraphQL, because nothing is parsed', { query: '{{{' }],
      ['a document with the hash that Apollo registers', { query: UNTRUSTED, ...persisted(hash(UNTRUSTED)) }],
      ['an unknown hash', persisted(hash(UNTRUSTED))],
      ['an unknown id', { documentId: 'unknown' }],
    ])('refuse %s, free of charge', async (_, body) => {
      const before = remaining(await post({ documentId: hash(NAMES) }));
      const refused = await post(body);
      expect(remaining(refused)).toBe(before);
      expect(await outcome(refused)).toEqual([400, ['DOCUMENT_NOT_TRUSTED']]);
    });

    it('need a key for introspection', async () => {
      expect((await post({ query: '{ __typename }' }, {})).status).toBe(401);
    });

    it('refuse one entry of a batch, and run the others', async () => {
      const response = await post([{ documentId: hash(NAMES) }, { query: UNTRUSTED }]);
      expect(response.status).toBe(200);
      const [trusted, other] = (await response.json()) as [Answer, Answer];
      expect(trusted).toHaveProperty('data');
      expect(other.errors?.[0]?.extensions.code).toBe('DOCUMENT_NOT_TRUSTED');
    });

    it('log and count a refusal in one line', async () => {
      const before = sum(await scrape(gateway), COUNTED, { outcome: 'refused' }) ?? 0;
      gateway.logged.length = 0;
      await post(
        { query: UNTRUSTED, operationName: 'Others' },
        { ...authorization, 'apollographql-client-name': 'shop' },
      );
      await vi.waitFor(() => expect(gateway.logged).toHaveLength(1));
      expect(gateway.logged).toMatchObject([
        { msg: 'request', status: 400, untrusted: `Others sha256:${hash(UNTRUSTED)}`, client: 'shop' },
      ]);
      expect(sum(await scrape(gateway), COUNTED, { outcome: 'refused' })).toBe(before + 1);
    });

    it('change with the manifest, which may not break', async () => {
      const has = (text: string) =>
        vi.waitFor(() => expect(gateway.logged.map(({ msg }) => msg)).toContain(text), 5_000);
      gateway.logged.length = 0;
      await manifest.write({ first: UNTRUSTED, second: '{ dogs }' });
      await has('the manifest of trusted documents is loaded');
      expect(gateway.logged).toContainEqual(expect.objectContaining({ level: 40, id: 'second' }));
      expect((await post({ documentId: 'first' })).status).toBe(200);
      expect(await outcome(await post({ documentId: 'second' }))).toEqual([422, ['GRAPHQL_VALIDATION_FAILED']]);
      expect(await outcome(await post({ query: NAMES }))).toEqual([400, ['DOCUMENT_NOT_TRUSTED']]);

      await manifest.write({});
      await has('the manifest of trusted documents is empty');
      expect((await post({ documentId: 'first' })).status).toBe(400);
      // Some editors write a byte order mark.
      await manifest.write(`\ufeff${JSON.stringify({ first: UNTRUSTED })}`);
      await vi.waitFor(async () => expect((await post({ documentId: 'first' })).status).toBe(200), 5_000);

      gateway.logged.length = 0;
      await manifest.write('{ "first": ');
      await has('the previous manifest of trusted documents stays in use');
      expect(gateway.logged.filter(({ msg }) => msg !== 'request')).toMatchObject([
        {
          level: 40,
          reason: expect.stringMatching(/^TRUSTED_DOCUMENTS names .*manifest\.json, which is neither a JSON object /),
        },
      ]);
      expect((await post({ documentId: 'first' })).status).toBe(200);
    });
  });

  describe('with a report of all others', () => {
    beforeAll(() => start(APOLLO, { TRUSTED_DOCUMENTS_ONLY: 'report' }));
    afterAll(stop);

    it('run like them, and only others are counted and logged', async () => {
      const before = sum(await scrape(gateway), COUNTED, { outcome: 'reported' }) ?? 0;
      gateway.logged.length = 0;
      const bodies = [
        { query: UNTRUSTED },
        { query: NAMES },
        { documentId: hash(NAMES) },
        { documentId: 'old', query: UNTRUSTED },
      ];
      for (const body of bodies) expect((await post(body)).status).toBe(200);
      await vi.waitFor(() => expect(gateway.logged).toHaveLength(4));
      expect(gateway.logged.map(({ untrusted }) => untrusted)).toEqual([
        `sha256:${hash(UNTRUSTED)}`,
        undefined,
        undefined,
        'old',
      ]);
      expect(sum(await scrape(gateway), COUNTED, { outcome: 'reported' })).toBe(before + 2);
    });

    it('say what an empty manifest means', async () => {
      gateway.logged.length = 0;
      await manifest.write({});
      const text = 'the manifest of trusted documents is empty';
      await vi.waitFor(() => expect(gateway.logged.map(({ msg }) => msg)).toContain(text), 5_000);
      expect((await post({ query: NAMES })).status).toBe(200);
      await manifest.write(APOLLO);
      const loaded = { documents: 1, msg: 'the manifest of trusted documents is loaded' };
      await vi.waitFor(() => expect(gateway.logged).toContainEqual(expect.objectContaining(loaded)), 5_000);
    });
  });
});

describe('a manifest', () => {
  const log = pino({ level: 'silent' });
  let apollo: Apollo;

  beforeAll(async () => {
    const limits = { maxRootFields: 100, maxResponseBytes: 8_388_608, maxBatch: 20, maxBodyBytes: 1_048_576 };
    apollo = await startApollo(
      createSchema(),
      { introspection: true, explorer: false, production: false, limits },
      log,
    );
  });
  afterAll(() => apollo.stop());

  const open = ({ path }: Manifest, check: Apollo['check'] = apollo.check) =>
    openDocuments({ path, count: () => undefined, check, log });

  it.each([
    [
      'an id twice',
      { ...APOLLO, operations: [NAMES, UNTRUSTED].map((body) => ({ id: 'q', body })) },
      'two documents with the id q',
    ],
    ['an id twice, once with a prefix', { x: NAMES, 'sha256:x': UNTRUSTED }, 'two documents with the id x'],
    [
      'the SHA-256 of another document as an id',
      { [hash(NAMES)]: UNTRUSTED, other: NAMES },
      `two documents with the id ${hash(NAMES)}`,
    ],
    ['an empty document', { empty: '' }, 'the document empty, which cannot be parsed (The query is empty: '],
    ['a document that is not GraphQL', { bad: '{{{' }, 'the document bad, which cannot be parsed (Syntax Error: '],
  ])('may not have %s', async (_, content, reason) => {
    const own = await makeManifest(content);
    await expect(open(own)).rejects.toThrow(`TRUSTED_DOCUMENTS names ${own.path}, which has ${reason}`);
    await own.remove();
  });

  it('is read before the store is opened', async () => {
    const settings = { PORT: '0', DATABASE_URL: 'postgres://127.0.0.1:1/animals', START_TIMEOUT_MS: '0' };
    const config = loadConfig({ ...settings, TRUSTED_DOCUMENTS: 'missing.json' });
    await expect(startApp(config, log)).rejects.toThrow('TRUSTED_DOCUMENTS names missing.json');
  });

  it('has no previous one if it is missing at the start', async () => {
    const own = await makeManifest({ x: NAMES });
    await own.remove();
    const warn = vi.spyOn(log, 'warn');
    await expect(open(own)).rejects.toThrow(`TRUSTED_DOCUMENTS names ${own.path}, which cannot be read`);
    await sleep(100);
    expect(warn).not.toHaveBeenCalled();
    unwatchFile(own.path);
  });

  it('may have the same document under several ids', async () => {
    const own = await makeManifest({ x: NAMES, 'sha256:x': NAMES, [hash(NAMES)]: NAMES });
    await (await open(own)).close();
    await own.remove();
  });

  it('is read again if it is replaced while it is read for the first time', async () => {
    const own = await makeManifest({ first: NAMES });
    let isReplaced = false;
    const documents = await open(own, async (query) => {
      if (!isReplaced) {
        isReplaced = true;
        await sleep(500);
        await own.write({ second: UNTRUSTED, third: NAMES });
      }
      return apollo.check(query);
    });
    const request = {
      query: undefined,
      documentId: 'second',
      persistedHash: undefined,
      operationName: undefined,
      variables: undefined,
    };
    const http = { redact: (text: string) => text } as unknown as HttpRequest;
    await vi.waitFor(() => expect(documents.find(request, http, {})).toBe(UNTRUSTED), 5_000);
    await documents.close();
    await own.remove();
  });
});
