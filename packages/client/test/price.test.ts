import { Kind, parse, type OperationDefinitionNode } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPetClient, type PetClient, type PetClientOptions } from '../src/index.js';
import { toDryRun } from '../src/price.js';
import { startGateway, type Gateway } from '../../../test/support/gateway.js';
import { getFromLists, lookups } from './lookups.js';

const DOCUMENTS = [
  '{ pets { id } }',
  'query { pets { id } }',
  'query mutation { pets { id } }',
  'query Q($status: PetStatus = SOLD) @tag(of: { a: "}" }) { pets(status: $status) { id } }',
  'query Q($input: In = { a: { b: [1] } }) { pets { id } }',
  '"""a { b """ query Q { pets { id } }',
  '"""\\""" { """ query Q { pets { id } }',
  '# mutation {\n{ pets { id } } # }',
  '{ pet(id: "}{\\"") { ...F } } fragment F on Pet { id }',
  'fragment mutation on Pet { id } query Q { pets { ...mutation } }',
  'query A { pets { id } } query B { pet(id: 1) { id } }',
  '\uFEFF{pets{id}}',
];

describe('a document to price', () => {
  it.each(DOCUMENTS)('gets the price in each query, and nowhere else: %s', (document) => {
    const queries = parse(toDryRun(document)).definitions.filter(
      (one): one is OperationDefinitionNode => one.kind === Kind.OPERATION_DEFINITION,
    );
    const fields = queries.map(({ selectionSet }) =>
      selectionSet.selections.map((one) => 'alias' in one && one.alias?.value),
    );
    const originals = parse(document).definitions.filter(({ kind }) => kind === Kind.OPERATION_DEFINITION);
    expect(fields).toEqual(originals.map(() => ['_0', undefined]));
    expect(toDryRun(document).replaceAll('_0:rateLimit(dryRun:true){cost}', '')).toBe(document);
  });

  it.each([
    'mutation { addPet(input: { name: "Rex", categoryId: 1 }) { id } }',
    'mutation query { addPet(input: { name: "Rex", categoryId: 1 }) { id } }',
    'query A { pets { id } } mutation B { addPet(input: { name: "Rex", categoryId: 1 }) { id } }',
    'fragment F on Pet { id } mutation B { addPet(input: { name: "{", categoryId: 1 }) { id } }',
    '"query" mutation B { addPet(input: { name: "Rex", categoryId: 1 }) { id } }',
    'subscription { pets { id } }',
  ])('is refused with an operation that would run: %s', (document) => {
    expect(() => toDryRun(document)).toThrow('Only queries have a price.');
  });
});

describe('the price of a document', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway('embedded', lookups());
  });
  afterAll(() => gateway.close());

  async function connect(perMinute: number, options: Partial<PetClientOptions> = {}): Promise<PetClient> {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute, perDay: 1_000 } });
    return createPetClient({ url: `${gateway.url}/graphql`, key, ...options });
  }

  it('is what it would cost, with its variables, and is not charged', async () => {
    const left: (number | undefined)[] = [];
    const client = await connect(5, { onLimit: ([minute]) => left.push(minute?.remaining) });
    const field = getFromLists ? 'pets(limit: 1)' : 'pet(id: 1)';
    const query = `query ($n: Int!) { a: pets(limit: $n) { id } b: pets(limit: 20) { id } c: ${field} { id } }`;
    expect(await client.price(query, { n: 20 })).toBe(2);
    expect(await client.price(query, { n: 21 })).toBe(3);
    expect(await client.price('{ __typename }')).toBe(0);
    expect(left).toEqual([5, 5, 5]);
  });

  it('is known at once while other calls wait for the window', async () => {
    let toldOfWait: () => void;
    const waits = new Promise<void>((resolve) => (toldOfWait = resolve));
    const client = await connect(1, { onWait: () => toldOfWait() });
    await client.list();
    const controller = new AbortController();
    const waiting = client.list({ signal: controller.signal });
    await waits;
    expect(await client.price('{ pets { id } }')).toBe(1);
    controller.abort();
    await expect(waiting).rejects.toThrow();
  });

  it('is refused the 61st time in a minute, which is not repeated and delays no other call', async () => {
    const waits: unknown[] = [];
    const client = await connect(5, { onWait: (wait) => waits.push(wait) });
    for (let use = 0; use < 60; use++) await client.price('{ pets { id } }');
    const last = client.price('{ pets { id } }', {}, { signal: AbortSignal.timeout(5_000) });
    await expect(last).rejects.toMatchObject({ code: 'RATE_LIMITED', retryAfter: expect.any(Number) as number });
    await client.list();
    expect(waits).toEqual([]);
  });

  it('may have bigints among its variables', async () => {
    const client = await connect(5);
    const query = 'query ($after: ID) { pets(after: $after) { id } }';
    expect(await client.price(query, { after: 2n ** 63n - 1n })).toBe(1);
  });

  it('fails with the error of the store if the document is not valid, and sends no mutation', async () => {
    const client = await connect(5);
    await expect(client.price('{ dogs { id } }')).rejects.toMatchObject({ code: 'GRAPHQL_VALIDATION_FAILED' });
    await expect(client.price('{ pets {')).rejects.toMatchObject({ code: 'GRAPHQL_PARSE_FAILED' });
    const add = 'mutation { addPet(input: { name: "Rex", categoryId: 1 }) { id } }';
    await expect(client.price(add)).rejects.toMatchObject({ code: 'BAD_USER_INPUT' });
    expect(await gateway.sql('SELECT id FROM pets')).toEqual([]);
  });
});
