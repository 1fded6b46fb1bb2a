import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MODES, startGateway, type Gateway } from '../support/gateway.js';

/** A brownout that begins so many minutes from now and lasts for half an hour. */
function brownout(minutes: number): string {
  return `${new Date(Date.now() + minutes * 60_000).toISOString().slice(0, 16)}Z/PT30M`;
}

const LOOKUP = '{ pets { id } pet(id: 1) { name } }';

describe.each(MODES)('lookups, %s store', (mode) => {
  const [past, present, future] = [brownout(-40), brownout(-10), brownout(120)];
  let during: Gateway;
  let before: Gateway;

  beforeAll(async () => {
    during = await startGateway(mode, { BROWNOUTS: `${future}, ${present},${past}` });
    before = await startGateway(mode, { BROWNOUTS: `${past},${future}` });
    for (const gateway of [during, before])
      await gateway.sql(`INSERT INTO pets (name, category_id) VALUES ('Bella', 10)`);
  });
  afterAll(() => Promise.all([during.close(), before.close()]));

  it('answer in a brownout as after their removal, uncharged, whatever else is selected', async () => {
    const { key } = await during.createKey();
    for (const query of [LOOKUP, '{ ...F } fragment F on Query { pet(id: 1) { name } pets { id } }']) {
      const { status, data, errors, extensions, headers } = await during.graphql(query, { key });
      expect([status, data, headers.get('x-ratelimit-remaining')]).toEqual([
        422,
        undefined,
        mode === 'proxy' ? null : '1000',
      ]);
      expect(errors).toMatchObject([{ extensions: { code: 'GRAPHQL_VALIDATION_FAILED' } }]);
      expect(errors?.[0]?.message).toMatch(
        /^Cannot query field "pet" on type "Query"\. Until 2\d{3}-.+, as a rehearsal\.$/,
      );
      expect(extensions?.deprecations).toMatchObject([
        { coordinate: 'Query.pet', sunset: '2030-12-05', brownout: present },
      ]);
    }
    expect((await during.graphql('{ pets { name } }', { key })).data).toEqual({ pets: [{ name: 'Bella' }] });
  });

  it('are refused in a brownout wherever their document has them', async () => {
    const { key } = await during.createKey();
    const skipped = 'query ($no: Boolean!) { pets { id } pet(id: 1) @skip(if: $no) { name } }';
    const other = 'query A { pet(id: 1) { name } } query B { pets { id } }';
    const answers = [
      await during.graphql(skipped, { key, variables: { no: true } }),
      await during.graphql(other, { key, operationName: 'B' }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([422, 422]);
  });

  it('refuse only their operation of a batch', async () => {
    const { key } = await during.createKey();
    const response = await during.fetch('/graphql', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
      body: JSON.stringify([{ query: LOOKUP }, { query: '{ pets { name } }' }]),
    });
    const [refused, answered] = (await response.json()) as any[];
    expect(response.status).toBe(200);
    expect(refused.data).toBeUndefined();
    expect(answered.data).toEqual({ pets: [{ name: 'Bella' }] });
  });

  it('announce the next brownout', async () => {
    const { key } = await before.createKey();
    const { data, extensions } = await before.graphql(LOOKUP, { key });
    expect(data.pet).toEqual({ name: 'Bella' });
    expect(extensions?.deprecations).toMatchObject([{ coordinate: 'Query.pet', brownout: future }]);
  });

  it('are announced in the log, each brownout that is not over', () => {
    const announced = [during, before].map(({ logged }) =>
      logged
        .map(
          ({ msg }) => /^(\S+) \(BROWNOUTS\): lookups by id will answer as after their removal$/.exec(String(msg))?.[1],
        )
        .filter(Boolean),
    );
    expect(announced).toEqual([[present, future], [future]]);
  });

  // A gateway has no REST interface.
  if (mode === 'proxy') return;

  it('do the same over REST', async () => {
    for (const [gateway, status] of [
      [during, 404],
      [before, 200],
    ] as const) {
      const { key } = await gateway.createKey();
      const headers = { Authorization: `Bearer ${key}` };
      const response = await gateway.fetch('/v1/pets/1', { headers });
      expect(response.status).toBe(status);
      expect(response.headers.get('sunset')).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
      if (status === 404)
        expect(await response.json()).toMatchObject({
          code: 'not_found',
          message: expect.stringMatching(/^There is no such path\. Until .+, as a rehearsal\.$/),
        });
      const list = await gateway.fetch('/v1/pets', { headers });
      expect([list.status, list.headers.get('x-ratelimit-remaining')]).toEqual([200, status === 404 ? '999' : '998']);
    }
  });
});
