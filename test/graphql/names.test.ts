import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, MODES, type Gateway } from '../support/gateway.js';

const ADD = 'mutation ($name: String!) { ok: addPet(input: { name: $name, categoryId: 1 }) { id name } }';

describe.each(MODES)('animal names in GraphQL, %s store', (mode) => {
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    gateway = await startGateway(mode);
    ({ key } = await gateway.createKey());
  });
  afterAll(() => gateway.close());

  it.each([
    ['one character', 'x'],
    ['255 ASCII characters', 'x'.repeat(255)],
    ['255 code points outside the Basic Multilingual Plane', '🐕'.repeat(255)],
    ['255 code points inside and outside the Basic Multilingual Plane', '🐕x'.repeat(127) + 'é'],
    ['white space around letters', '  Rex\t\n'],
    ['quotes, backslashes and SQL', `'; DROP TABLE pets; -- "\\`],
    ['control characters other than NUL', 'a\u0001\u001f\u007fb'],
    ['combining marks and joiners, unnormalised', 'e\u0301 👩\u200d👩\u200d👧'],
    ['a name of digits', '1e400'],
    ['a byte order mark at the beginning', '\ufeffRex'],
  ])('accepts %s and returns it unchanged', async (_, name) => {
    const added = await gateway.graphql(ADD, { key, variables: { name } });
    expect(added.errors).toBeUndefined();
    expect(added.data.ok.name).toBe(name);
    const { id } = added.data.ok as { id: string };
    const { data } = await gateway.graphql('query ($id: ID!) { pet(id: $id) { name } }', { key, variables: { id } });
    expect(data.pet.name).toBe(name);
  });

  it.each([
    ['an empty name', ''],
    ['a space', ' '],
    ['white space of several kinds', '\t\n\r \u00a0\u2003\u3000\u2028'],
    ['256 ASCII characters', 'x'.repeat(256)],
    ['256 code points outside the Basic Multilingual Plane', '🐕'.repeat(256)],
    ['NUL alone', '\0'],
    ['NUL between letters', 'a\0b'],
    ['a high surrogate without its low one', 'a\ud83d'],
    ['a low surrogate without its high one', '\udc15b'],
    ['surrogates in the wrong order', '\udc15\ud83d'],
  ])('refuses %s at its path and adds the sibling', async (_, name) => {
    const before = await countPets();
    const { status, data, errors } = await gateway.graphql(
      `mutation ($name: String!) { bad: addPet(input: { name: $name, categoryId: 1 }) { id }
        ok: addPet(input: { name: "Rex", categoryId: 1 }) { name } }`,
      { key, variables: { name } },
    );
    expect(status).toBe(200);
    expect(data).toEqual({ bad: null, ok: { name: 'Rex' } });
    expect(errors).toHaveLength(1);
    expect(errors?.[0]).toMatchObject({
      path: ['bad'],
      extensions: {
        code: 'BAD_USER_INPUT',
        error: { code: 'invalid_request', message: errors?.[0]?.message, status: 400 },
      },
    });
    expect(await countPets()).toBe(before + 1);
  });

  it('refuses NUL and blank names in literals', async () => {
    const { status, data, errors } = await gateway.graphql(
      String.raw`mutation { nul: addPet(input: { name: "a\u0000", categoryId: 1 }) { id }
        blank: addPet(input: { name: """   """, categoryId: 1 }) { id } }`,
      { key },
    );
    expect(status).toBe(200);
    expect(data).toEqual({ nul: null, blank: null });
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual(['BAD_USER_INPUT', 'BAD_USER_INPUT']);
  });

  async function countPets(): Promise<number> {
    const [row] = await gateway.sql<{ count: number }>('SELECT count(*)::int AS count FROM pets');
    return row?.count ?? 0;
  }
});
