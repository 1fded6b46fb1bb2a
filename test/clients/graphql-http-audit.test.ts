import { serverAudits, type AuditFail } from 'graphql-http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';

/**
 * Recommended by earlier drafts of GraphQL over HTTP, but not by the September 2026 edition. That edition removed the
 * section on application/json (pull request 404), so request errors have one status in both types.
 * https://graphql.github.io/graphql-over-http/draft/#sec-Status-Codes
 */
const WITHDRAWN = [
  {
    id: '572B',
    name: 'SHOULD use 200 status code on document parsing failure when accepting application/json',
    reason: 'An answer without data must have a 4xx or 5xx status; a document that cannot be parsed is a 400.',
  },
  {
    id: 'FDE2',
    name: 'SHOULD use 200 status code on document validation failure when accepting application/json',
    reason: 'An answer without data must have a 4xx or 5xx status; the request is at fault, so it is a 4xx.',
  },
  {
    id: '7B9B',
    name: 'SHOULD use a status code of 200 on variable coercion failure when accepting application/json',
    reason: 'An answer without data must have a 4xx or 5xx status; the request is at fault, so it is a 4xx.',
  },
];

/** The audits send these GETs without a header that would need a CORS preflight, so they are refused without a key. */
const FORGEABLE_GETS = ['5A70', 'D6D5', '6A70'];

describe.each(MODES)('the graphql-http audits, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;
  let count: number;
  let failures: AuditFail[];

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey({ plan: 'business' }));
    const results = await audit({ Authorization: `Bearer ${key}` });
    count = results.length;
    failures = results.filter((result) => result.status !== 'ok');
  });
  afterAll(() => gateway.close());

  async function audit(headers: Record<string, string>) {
    const fetchFn = (url: string, init: RequestInit = {}) => {
      const all = new Headers(init.headers);
      for (const [name, value] of Object.entries(headers)) all.set(name, value);
      return fetch(url, { ...init, headers: all });
    };
    const results = [];
    for (const { fn } of serverAudits({ url: `${gateway.url}/graphql`, fetchFn })) results.push(await fn());
    return results;
  }

  it('pass every MUST and every MAY', () => {
    expect(count).toBeGreaterThanOrEqual(61);
    expect(failures.filter(({ name }) => !name.startsWith('SHOULD'))).toEqual([]);
  });

  it('fail only the SHOULDs that the specification has withdrawn', () => {
    expect(failures.map(({ id, name }) => ({ id, name }))).toEqual(WITHDRAWN.map(({ id, name }) => ({ id, name })));
  });

  it('get a 400 where the withdrawn SHOULDs expect a 200', () => {
    expect(failures.map(({ response }) => response.status)).toEqual([400, 400, 400]);
  });

  it('pass without a key, except for GETs that need no CORS preflight', async () => {
    const keyless = (await audit({})).filter(({ status }) => status !== 'ok').map(({ id }) => id);
    expect(keyless.toSorted()).toEqual([...WITHDRAWN.map(({ id }) => id), ...FORGEABLE_GETS].toSorted());
  });

  it('give the same results without a key when every request has a preflight header', async () => {
    const keyless = (await audit({ 'Apollo-Require-Preflight': 'true' })).filter(({ status }) => status !== 'ok');
    expect(keyless.map(({ id }) => id)).toEqual(WITHDRAWN.map(({ id }) => id));
  });

  it('do not cover an empty operationName in a URL, which counts as absent', async () => {
    const search = new URLSearchParams({ query: 'query Named { __typename }', operationName: '', variables: '' });
    const response = await gateway.fetch(`/graphql?${search.toString()}`, {
      headers: { Authorization: `Bearer ${key}` },
    });
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ data: { __typename: 'Query' } });
  });

  it('do not fix the status of a mutation by GET, which is 405 with Allow', async () => {
    const search = new URLSearchParams({ query: 'mutation { addPet(input: { name: "Rex", categoryId: 1 }) { id } }' });
    const response = await gateway.fetch(`/graphql?${search.toString()}`, {
      headers: { Authorization: `Bearer ${key}` },
    });
    expect(response.status).toBe(405);
    expect(response.headers.get('allow')).toBe('POST');
    expect(await gateway.sql('SELECT id FROM pets')).toEqual([]);
  });
});
