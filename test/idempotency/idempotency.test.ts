import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';

const REX = `{ name: "Rex", categoryId: "9007199254740993", status: SOLD }`;
const ADD = `mutation { addPet(input: ${REX}) { id name categoryId status } }`;
const BODY = '{"name":"Rex","categoryId":9007199254740993,"status":"sold"}';

describe.each(MODES)('Idempotency-Key, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey({
      plan: 'enterprise',
      limits: { perMinute: 100_000, perDay: 100_000 },
    }));
    // A gateway sends one probe for a new key first, to learn its limits.
    await gateway.graphql('{ pets(limit: 1) { id } }', { key });
  });
  afterAll(() => gateway.close());

  const add = (idempotencyKey: string, query = ADD, bearer = key, variables?: Record<string, unknown>) =>
    gateway.graphql(query, {
      key: bearer,
      headers: { 'Idempotency-Key': idempotencyKey },
      ...(variables && { variables }),
    });
  const countOf = async (name = 'Rex') => (await gateway.sql(`SELECT id FROM pets WHERE name = $1`, [name])).length;

  it('adds one animal for 20 equal concurrent mutations, and returns the same response to all and to later ones', async () => {
    const before = await countOf();
    const idempotencyKey = randomUUID();
    const answers = await Promise.all(Array.from({ length: 20 }, () => add(idempotencyKey)));
    answers.push(await add(idempotencyKey), await add(`"${idempotencyKey}"`));
    expect(answers[0]?.data.addPet).toMatchObject({ name: 'Rex', categoryId: '9007199254740993', status: 'SOLD' });
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect((await countOf()) - before).toBe(1);
  });

  it('is not read for a request without a valid key', async () => {
    const { status, errors } = await gateway.graphql(ADD, { headers: { 'Idempotency-Key': 'x'.repeat(1_000) } });
    expect([status, errors?.[0]?.extensions.code]).toEqual([401, 'UNAUTHENTICATED']);
  });

  it("refuses another input with the same key as BAD_USER_INPUT with the store's message, and adds nothing", async () => {
    const idempotencyKey = randomUUID();
    const added = await add(idempotencyKey);
    const before = await countOf('Max');
    const { status, data, errors } = await add(idempotencyKey, ADD.replace('Rex', 'Max'));
    expect([status, data]).toEqual([200, { addPet: null }]);
    expect(errors).toHaveLength(1);
    expect(errors?.[0]?.path).toEqual(['addPet']);
    expect(errors?.[0]?.extensions).toMatchObject({
      code: 'BAD_USER_INPUT',
      error: { code: 'idempotency_key_reused', status: 422 },
    });
    expect(await countOf('Max')).toBe(before);
    expect((await add(idempotencyKey)).text).toBe(added.text);
  });

  it('appends the position of each addPet field to the key, counting refused fields, with or without directives', async () => {
    const before = await countOf();
    const idempotencyKey = randomUUID();
    const fields = (directive = '') =>
      `mutation($category: ID = 1) {
        t: __typename
        a: addPet(input: ${REX}) ${directive} { id }
        bad: addPet(input: { name: " ", categoryId: 1 }) { id }
        worse: addPet(input: { name: "Rex", categoryId: $category }) { id }
        b: addPet(input: ${REX}) { id }
        c: addPet(input: ${REX}) { id }
      }`;
    const variables = { category: null };
    const first = await add(idempotencyKey, fields(), key, variables);
    const ids = ['a', 'b', 'c'].map((name) => first.data[name].id as string);
    expect(new Set(ids).size).toBe(3);
    expect(first.errors?.map(({ path }) => path?.[0])).toEqual(['bad', 'worse']);
    const executed = await add(idempotencyKey, fields('@include(if: true)'), key, variables);
    expect(executed.data).toEqual(first.data);
    const alone = await add(idempotencyKey);
    expect(alone.data.addPet.id).toBe(ids[0]);
    expect((await countOf()) - before).toBe(3);
  });

  it('does not change for fields after one that was refused and is corrected', async () => {
    const idempotencyKey = randomUUID();
    const fields = (name: string) =>
      `mutation {
        bad: addPet(input: { name: "${name}", categoryId: 1 }) { id }
        a: addPet(input: ${REX}) { id }
        b: addPet(input: ${REX}) { id }
      }`;
    const first = await add(idempotencyKey, fields(' '));
    expect(first.errors?.map(({ path }) => path?.[0])).toEqual(['bad']);
    const { data, errors } = await add(idempotencyKey, fields('Rex'));
    expect([errors, data.a, data.b]).toEqual([undefined, first.data.a, first.data.b]);
  });

  it('keeps the operations of a batch apart, and returns the same response if the batch is repeated', async () => {
    const before = await countOf();
    const idempotencyKey = randomUUID();
    const send = async () => {
      const response = await gateway.fetch('/graphql', {
        method: 'POST',
        headers: {
          Authorization: `Bearer ${key}`,
          'Content-Type': 'application/json',
          'Idempotency-Key': idempotencyKey,
        },
        body: JSON.stringify([
          { query: ADD },
          { query: `mutation { a: addPet(input: ${REX}) { id } }` },
          { query: ADD },
        ]),
      });
      return response.text();
    };
    const answers = await Promise.all([send(), send(), send()]);
    expect(new Set(answers).size).toBe(1);
    expect((await countOf()) - before).toBe(3);
  });

  it('belongs to the API key of its request', async () => {
    const idempotencyKey = randomUUID();
    const other = await gateway.createKey();
    const [mine, theirs] = [await add(idempotencyKey), await add(idempotencyKey, ADD, other.key)];
    expect(theirs.data.addPet.id).not.toBe(mine.data.addPet.id);
    expect((await add(idempotencyKey, ADD.replace('Rex', 'Max'), other.key)).errors).toHaveLength(1);
  });

  it('can be used again after a request that added nothing: invalid arguments or over the limit', async () => {
    const idempotencyKey = randomUUID();
    const { key: once } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 10 } });
    expect((await add(idempotencyKey, ADD.replace('"Rex"', '""'), once)).errors).toHaveLength(1);
    expect((await add(idempotencyKey, '{ pets(limit: 1) { id } }', once)).status).toBe(200);
    expect((await add(idempotencyKey, ADD, once)).status).toBe(429);
    expect((await add(idempotencyKey)).data.addPet).not.toBeNull();
  });

  it('does not change the cost: a repeated request costs the same', async () => {
    const idempotencyKey = randomUUID();
    const left = async () => Number((await add(idempotencyKey)).headers.get('ratelimit')?.match(/r=(\d+)/)?.[1]);
    const first = await left();
    expect([await left(), await left()]).toEqual([first - 1, first - 2]);
  });

  it('is ignored for queries', async () => {
    const { status, data } = await add(randomUUID(), '{ pets(limit: 1) { id } }');
    expect([status, data.pets.length]).toEqual([200, 1]);
  });

  it.each([
    ['empty', ''],
    ['two words', 'a b'],
    ['with a quote at one end', '"a'],
    ['with a quote inside', 'a"b'],
    ['twice in one header', '"a", "b"'],
    ['twice, unquoted', 'one, two'],
    ['empty in quotes', '""'],
    ['with an invalid escape', '"a\\b"'],
    ['too long', 'x'.repeat(256)],
    ['too long in quotes', `"${'x'.repeat(256)}"`],
    ['not ASCII', 'ü'],
  ])('is refused with 400, before anything runs, if it is %s', async (_, malformed) => {
    const before = await countOf();
    const { status, errors, data } = await add(malformed);
    expect([status, data, errors?.[0]?.extensions.code]).toEqual([400, undefined, 'BAD_REQUEST']);
    expect(errors?.[0]?.message).toMatch(/Idempotency-Key must be one key of 1 to 255/);
    expect(await countOf()).toBe(before);
  });

  it.each([
    ['one character', '!'],
    ['punctuation', '~;a=b\\'],
    ['255 characters', 'x'.repeat(255)],
    ['255 escaped quotes', `"${'\\"'.repeat(255)}"`],
    ['comma and space, in quotes', '"with, comma and space"'],
  ])('accepts %s', async (_, unusual) => {
    const answers = [await add(unusual), await add(unusual), await add(unusual, ADD.replace('Rex', 'Max'))];
    expect(answers[0]?.data.addPet).toMatchObject({ name: 'Rex' });
    expect(answers[1]?.text).toBe(answers[0]?.text);
    expect(answers[2]?.errors?.[0]?.extensions.error?.status).toBe(422);
  });

  it('asks for another attempt if it ends between the two statements of a repeat', async () => {
    // The trigger does what the pruning of old keys does at that moment.
    await gateway.sql(`CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`);
    const forget = 'TRIGGER forget BEFORE INSERT ON idempotent_adds FOR EACH ROW EXECUTE FUNCTION forget()';
    await gateway.sql(`CREATE ${forget}`);
    const { data, errors } = await add(randomUUID());
    await gateway.sql('DROP FUNCTION forget CASCADE');
    expect(data).toEqual({ addPet: null });
    expect(errors).toMatchObject([{ extensions: { retryAfter: 1, error: { code: 'unavailable', status: 503 } } }]);
  });

  it('is stored for 24 hours, as a digest', async () => {
    const idempotencyKey = randomUUID();
    const first = await add(idempotencyKey);
    const rows = await gateway.sql<{ text: string }>('SELECT idempotent_adds::text AS text FROM idempotent_adds');
    expect(rows.length).toBeGreaterThan(0);
    expect(rows.filter(({ text }) => text.includes(idempotencyKey))).toEqual([]);
    const age = (interval: string) =>
      gateway.sql('UPDATE idempotent_adds SET created_at = now() - $1::interval', [interval]);
    await age('23 hours 59 minutes');
    expect((await add(idempotencyKey)).text).toBe(first.text);
    await age('24 hours 1 second');
    const before = await countOf('Max');
    const renewed = await Promise.all(Array.from({ length: 5 }, () => add(idempotencyKey, ADD.replace('Rex', 'Max'))));
    expect(new Set(renewed.map(({ text }) => text)).size).toBe(1);
    expect(renewed[0]?.errors).toBeUndefined();
    expect((await countOf('Max')) - before).toBe(1);
    expect((await add(idempotencyKey)).errors?.[0]?.extensions.error?.status).toBe(422);
  });

  if (mode === 'proxy') return;
  describe('over REST', () => {
    const post = async (idempotencyKey: string, body = BODY) => {
      const response = await gateway.fetch('/v1/pets', {
        method: 'POST',
        headers: {
          Authorization: `Bearer ${key}`,
          'Content-Type': 'application/json',
          'Idempotency-Key': idempotencyKey,
        },
        body,
      });
      return { status: response.status, location: response.headers.get('location'), text: await response.text() };
    };

    it('adds one animal for 20 equal concurrent requests, and returns the same 201 to each', async () => {
      const before = await countOf();
      const idempotencyKey = randomUUID();
      const answers = await Promise.all(Array.from({ length: 20 }, () => post(idempotencyKey)));
      // The same animal, written differently.
      answers.push(
        await post(idempotencyKey, '{ "status":"sold", "categoryId":9007199254740993, "name":"\\u0052ex" }'),
      );
      expect(answers[0]).toMatchObject({ status: 201, location: expect.stringMatching(/^\/v1\/pets\/\d+$/) as string });
      expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
      expect((await countOf()) - before).toBe(1);
    });

    it('matches the key of the first addPet field', async () => {
      const idempotencyKey = randomUUID();
      const { text } = await post(idempotencyKey);
      expect(text).toContain(`"id":${(await add(idempotencyKey)).data.addPet.id as string},`);
    });

    it('returns 422 for another body', async () => {
      const idempotencyKey = randomUUID();
      await post(idempotencyKey);
      const { status, text } = await post(idempotencyKey, BODY.replace('sold', 'pending'));
      expect([status, JSON.parse(text)]).toEqual([
        422,
        { code: 'idempotency_key_reused', status: 422, message: expect.stringContaining('Idempotency-Key') as string },
      ]);
    });

    it('is refused with 400 if it is malformed', async () => {
      const { status, text } = await post('two words');
      expect([status, JSON.parse(text)]).toMatchObject([400, { code: 'invalid_request' }]);
    });
  });
});
