import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, startGateway, startProxyBefore, type Gateway } from '../support/gateway.js';
import { answerAnimals, startScriptedUpstream } from '../support/scripted-upstream.js';

const DRY = 'rateLimit(dryRun: true) { cost windows { limit remaining } }';
const ALIASES = Array.from({ length: 6 }, (_, index) => `p${index}: pets(limit: ${index + 1}) { id }`).join(' ');

describe.each(MODES)('a dry run, %s store', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode, { BAN_AFTER: '1', MAX_RESPONSE_BYTES: '60000' });
    await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 1)`);
  });
  afterAll(() => gateway.close());

  /** Creates a key with 5 requests a minute. One is used, so that a gateway knows the key. */
  async function createKey(): Promise<string> {
    const limits = { perMinute: 5, perDay: 1_000 };
    const { key } = await gateway.createKey({ plan: 'enterprise', limits });
    await gateway.graphql('{ pets { id } }', { key });
    return key;
  }

  async function expectLeft(key: string, remaining: number): Promise<void> {
    const { headers } = await gateway.graphql('{ __typename }', { key });
    expect(headers.get('x-ratelimit-remaining')).toBe(String(remaining));
  }

  it('states the cost, and what is left without it; the other fields are null without errors', async () => {
    const key = await createKey();
    const query = `{ a: pets { id } b: pet(id: 1) { id } same: pet(id: "1") { id } ${DRY} }`;
    const { status, data, errors, headers } = await gateway.graphql(query, { key });
    expect([status, errors]).toEqual([200, undefined]);
    expect(data).toEqual({
      a: null,
      b: null,
      same: null,
      rateLimit: {
        cost: 2,
        windows: [
          { limit: 5, remaining: 4 },
          { limit: 1_000, remaining: 999 },
        ],
      },
    });
    expect(headers.get('x-ratelimit-remaining')).toBe('4');
    await expectLeft(key, 4);
  });

  it('is asked for by a variable, and otherwise the operation runs, charges and states its cost', async () => {
    const key = await createKey();
    const query = 'query ($dry: Boolean!) { pets { name } rateLimit(dryRun: $dry) { cost windows { remaining } } }';
    const dry = await gateway.graphql(query, { key, variables: { dry: true } });
    expect(dry.data).toEqual({ pets: null, rateLimit: { cost: 1, windows: [{ remaining: 4 }, { remaining: 999 }] } });
    const run = await gateway.graphql(query, { key, variables: { dry: false } });
    expect(run.data).toEqual({
      pets: [{ name: 'Bella' }],
      rateLimit: { cost: 1, windows: [{ remaining: 3 }, { remaining: 998 }] },
    });
    const { data } = await gateway.graphql('{ pets { name } rateLimit { cost } }', { key });
    expect(data).toEqual({ pets: [{ name: 'Bella' }], rateLimit: { cost: 1 } });
  });

  it('needs a boolean: null through a variable is an error of the field, and the operation runs', async () => {
    const key = await createKey();
    const query = 'query ($dry: Boolean = true) { pets { name } rateLimit(dryRun: $dry) { cost } }';
    const { data, errors } = await gateway.graphql(query, { key, variables: { dry: null } });
    expect(data).toEqual({ pets: [{ name: 'Bella' }], rateLimit: null });
    expect(errors?.map(({ path, extensions }) => [path, extensions.code])).toEqual([[['rateLimit'], 'BAD_USER_INPUT']]);
  });

  it('applies to the whole operation if one of several rateLimit fields asks for it; the others are null', async () => {
    const key = await createKey();
    const query =
      '{ a: rateLimit { cost } pets { id } b: rateLimit(dryRun: true) { cost } c: rateLimit(dryRun: false) { cost } }';
    const { data, errors } = await gateway.graphql(query, { key });
    expect([data, errors]).toEqual([{ a: null, pets: null, b: { cost: 1 }, c: null }, undefined]);
    await expectLeft(key, 4);
  });

  it('follows @skip and @include', async () => {
    const key = await createKey();
    const query = `query ($yes: Boolean!) {
      pets { name } pet(id: 1) @skip(if: $yes) { name } rateLimit(dryRun: true) @include(if: $yes) { cost }
    }`;
    const dry = await gateway.graphql(query, { key, variables: { yes: true } });
    expect(dry.data).toEqual({ pets: null, rateLimit: { cost: 1 } });
    const run = await gateway.graphql(query, { key, variables: { yes: false } });
    expect(run.data).toEqual({ pets: [{ name: 'Bella' }], pet: { name: 'Bella' } });
    await expectLeft(key, 2);
  });

  it('answers __typename and introspection, which cannot be null', async () => {
    const key = await createKey();
    const query = `{ __typename __schema { queryType { name } } __type(name: "Pet") { name } pets { id } ${DRY} }`;
    const { data } = await gateway.graphql(query, { key });
    expect(data).toMatchObject({
      __typename: 'Query',
      __schema: { queryType: { name: 'Query' } },
      __type: { name: 'Pet' },
      pets: null,
      rateLimit: { cost: 1 },
    });
  });

  it('has no errors for arguments that a run would refuse, and prices them as 0', async () => {
    const key = await createKey();
    const query = `{ bad: pets(limit: 500) { id } worse: pet(id: "007") { id } __type(name: "Pet") { name } pets { id } ${DRY} }`;
    const { status, data, errors } = await gateway.graphql(query, { key });
    expect([status, errors]).toEqual([200, undefined]);
    expect(data).toMatchObject({ bad: null, worse: null, pets: null, rateLimit: { cost: 1 } });
  });

  it('prices what costs more than is left, and more than a window holds', async () => {
    const key = await createKey();
    expect((await gateway.graphql(`{ ${ALIASES} }`, { key })).errors?.[0]?.extensions.code).toBe('OPERATION_TOO_LARGE');
    const { data } = await gateway.graphql(`{ ${ALIASES} ${DRY} }`, { key });
    expect(data).toMatchObject({
      p0: null,
      p5: null,
      rateLimit: { cost: 6, windows: [{ limit: 5, remaining: 4 }, {}] },
    });
    await expectLeft(key, 4);
  });

  it('prices an operation whose response would be too large, unless that of the dry run is', async () => {
    const key = await createKey();
    const large = 'a: pets(limit: 100) { name } b: pets(limit: 99) { name }';
    expect((await gateway.graphql(`{ ${large} }`, { key })).errors?.[0]?.extensions.code).toBe('OPERATION_TOO_LARGE');
    const { data } = await gateway.graphql(`{ ${large} ${DRY} }`, { key });
    expect(data).toMatchObject({ a: null, b: null, rateLimit: { cost: 2 } });
    const schema = Array.from({ length: 20 }, (_, i) => `s${i}: __schema { types { name description } }`).join(' ');
    const { errors } = await gateway.graphql(`{ ${schema} ${DRY} }`, { key });
    expect(errors?.[0]?.extensions.code).toBe('OPERATION_TOO_LARGE');
  });

  it('concerns only its own operation of a batch', async () => {
    const key = await createKey();
    const response = await gateway.fetch('/graphql', {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify([{ query: '{ pets { name } }' }, { query: `{ pets { name } ${DRY} }` }]),
    });
    expect(await response.json()).toMatchObject([
      { data: { pets: [{ name: 'Bella' }] } },
      { data: { pets: null, rateLimit: { cost: 1, windows: [{ remaining: 3 }, { remaining: 998 }] } } },
    ]);
    await expectLeft(key, 3);
  });

  it('is free for a key without requests left, never counts towards a ban, and is refused during one', async () => {
    const key = await createKey();
    const four = '{ a: pet(id: 1) { id } b: pet(id: 2) { id } c: pet(id: 3) { id } d: pet(id: 4) { id } }';
    await gateway.graphql(four, { key });
    for (let use = 0; use < 5; use += 1) {
      const { status, data } = await gateway.graphql(`{ pets { id } ${DRY} }`, { key });
      expect([status, data.rateLimit]).toMatchObject([200, { cost: 1, windows: [{ remaining: 0 }, {}] }]);
    }
    const codes: unknown[] = [];
    for (const query of ['{ pets { id } }', '{ pets { id } }', `{ pets { id } ${DRY} }`]) {
      codes.push((await gateway.graphql(query, { key })).errors?.[0]?.extensions.code);
    }
    // A gateway stops asking at the first refusal.
    expect(codes).toEqual(
      mode === 'proxy' ? ['RATE_LIMITED', 'RATE_LIMITED', undefined] : ['RATE_LIMITED', 'KEY_BANNED', 'KEY_BANNED'],
    );
  });

  it('uses the guard of rateLimit: the 61st within a minute gets an error of the field, and nothing runs', async () => {
    const key = await createKey();
    const dry = Array.from({ length: 60 }, (_, index) => `r${index}: rateLimit(dryRun: true) { cost }`).join(' ');
    const first = await gateway.graphql(`{ pets { id } ${dry} }`, { key });
    expect([first.errors, first.data.r59]).toEqual([undefined, { cost: 1 }]);
    const { data, errors } = await gateway.graphql(`{ pets { id } ${DRY} }`, { key });
    expect(data).toEqual({ pets: null, rateLimit: null });
    expect(errors?.map(({ path, extensions }) => [path, extensions.code])).toEqual([[['rateLimit'], 'RATE_LIMITED']]);
    await expectLeft(key, 4);
  });

  it('is answered by GET', async () => {
    const key = await createKey();
    const search = new URLSearchParams({ query: `{ pets { id } ${DRY} }` });
    const response = await gateway.fetch(`/graphql?${search.toString()}`, {
      headers: { Authorization: `Bearer ${key}` },
    });
    expect(await response.json()).toMatchObject({ data: { pets: null, rateLimit: { cost: 1 } } });
    await expectLeft(key, 4);
  });

  it('cannot price a mutation: rateLimit is a field of Query', async () => {
    const key = await createKey();
    const add = 'addPet(input: { name: "Rex", categoryId: 1 }) { id }';
    const { status, errors } = await gateway.graphql(`mutation { ${add} ${DRY} }`, { key });
    expect([status, errors?.[0]?.extensions.code]).toEqual([422, 'GRAPHQL_VALIDATION_FAILED']);
    expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'Rex'`)).toEqual([]);
  });
});

it('a dry run asks the upstream nothing, and has no price until the upstream has answered for the key', async () => {
  const upstream = await startScriptedUpstream((request, response) => {
    response.setHeader('RateLimit-Policy', '"minute";q=60;w=60');
    response.setHeader('RateLimit', '"minute";r=59;t=60');
    answerAnimals(request, response);
  });
  const gateway = await startProxyBefore(upstream.url);
  try {
    const query = `{ pets { id } pet(id: 1) { id } ${DRY} }`;
    const unknown = await gateway.graphql(query, { key: 'a' });
    expect([unknown.status, unknown.data]).toEqual([200, { pets: null, pet: null, rateLimit: null }]);
    await gateway.graphql('{ pets { id } }', { key: 'a' });
    const before = upstream.seen.length;
    const { data } = await gateway.graphql(query, { key: 'a' });
    expect(data.rateLimit).toEqual({ cost: 2, windows: [{ limit: 60, remaining: 59 }] });
    expect(upstream.seen.length).toBe(before);
  } finally {
    await gateway.close();
    await upstream.close();
  }
});
