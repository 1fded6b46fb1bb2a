import { serverAudits, type AuditFail } from 'graphql-http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';

/**
 * Audits of earlier drafts that the September 2026 edition contradicts, all in its section on status codes:
 * https://http-spec.graphql.org/September2026/#sec-Status-Codes
 */
const CONTRADICTED = [
  { reason: 'A document that cannot be parsed is a 400 in every media type.', status: 400, ids: ['572B', 'FDE2'] },
  { reason: 'Variables that cannot be coerced are a 422.', status: 422, ids: ['7B9B', '86EE'] },
  {
    reason: 'A request that is not well formed is a 422.',
    status: 422,
    ids: '423L LKJ0 LKJ1 LKJ2 LKJ3 6C00 6C01 6C02 6C03 4760 4761 4762 4763 58B0 58B1 58B2 58B3 3E3A'.split(' '),
  },
];
const CONTRADICTED_IDS = CONTRADICTED.flatMap(({ ids }) => ids).toSorted();

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

  it('fail only where the specification has changed', () => {
    expect(count).toBeGreaterThanOrEqual(61);
    expect(failures.map(({ id }) => id).toSorted()).toEqual(CONTRADICTED_IDS);
    expect(failures.filter(({ name }) => name.startsWith('MUST'))).toEqual([]);
  });

  it.each(CONTRADICTED)('contradict the specification: $reason', ({ ids, status }) => {
    const contradicted = failures.filter(({ id }) => ids.includes(id));
    expect(contradicted.map(({ response }) => response.status)).toEqual(ids.map(() => status));
  });

  it('pass without a key, except for GETs that need no CORS preflight', async () => {
    const keyless = (await audit({})).filter(({ status }) => status !== 'ok').map(({ id }) => id);
    expect(keyless.toSorted()).toEqual([...CONTRADICTED_IDS, ...FORGEABLE_GETS].toSorted());
  });

  it('give the same results without a key when every request has a preflight header', async () => {
    const keyless = (await audit({ 'Apollo-Require-Preflight': 'true' })).filter(({ status }) => status !== 'ok');
    expect(keyless.map(({ id }) => id).toSorted()).toEqual(CONTRADICTED_IDS);
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
