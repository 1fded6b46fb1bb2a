/** One input for the server. In `body` and `bytes`, each character is one byte (Latin-1). */
export type BadInput =
  | {
      readonly kind: 'request';
      readonly path: string;
      readonly method: string;
      readonly headers: Record<string, string>;
      readonly body?: string;
      /** True if the server must refuse all of it. A damaged input may still be valid by chance. */
      readonly isBad: boolean;
    }
  | { readonly kind: 'raw'; readonly bytes: string };

/** Generates an endless sequence of inputs, which depends only on the seed and the key. */
export function createBadInputs({ seed, key }: { readonly seed: number; readonly key: string }): { next(): BadInput } {
  const random = createRandom(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  const pick = <T>(values: readonly T[]): T => values[below(values.length)] as T;
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };

  const post = (path: string, body: string, isBad: boolean, more: Record<string, string> = {}): BadInput => ({
    kind: 'request',
    path,
    method: 'POST',
    headers: { ...headers, ...more },
    body,
    isBad,
  });
  const graphql = (request: object, isBad: boolean): BadInput =>
    post('/graphql', toUtf8(JSON.stringify(request)), isBad);

  const kinds: (() => BadInput)[] = [
    // Damaged: the result may be valid.
    () => graphql({ query: damage(pick(DOCUMENTS)), variables: pick(VARIABLES) }, false),
    () =>
      post('/graphql', damage(toUtf8(JSON.stringify({ query: pick(DOCUMENTS), variables: pick(VARIABLES) }))), false),
    () => post('/v1/pets', damage(pick(NEW_PETS)), false),
    () => ({ kind: 'request', path: damagePath(pick(PATHS)), method: pick(METHODS), headers, isBad: false }),
    () => ({ kind: 'raw', bytes: damage(pick(REQUESTS).replace('KEY', key)) }),
    // Bad: the server must refuse all of it.
    () => graphql({ query: 'query($v: ID!) { pet(id: $v) { id } }', variables: { v: badId() } }, true),
    () => graphql({ query: 'query($v: Int!) { pets(limit: $v) { id } }', variables: { v: badLimit() } }, true),
    () => graphql({ query: `{ pet(id: ${JSON.stringify(pick(BAD_ID_TEXTS))}) { id } }` }, true),
    () => graphql({ query: ADD, variables: { input: badNewPet('categoryId') } }, true),
    () => post('/v1/pets', toUtf8(JSON.stringify(badNewPet('rest'))), true),
    () => post('/v1/pets', toUtf8(JSON.stringify(value(3))).replace(/^\{.*"name".*/s, '[]'), true),
    () => post('/graphql', toUtf8(JSON.stringify(value(3))).replaceAll('"query"', '"q"'), true),
    () =>
      post(
        pick(['/graphql', '/v1/pets']),
        `${pick(NEW_PETS)}${pick(['\xff', '\xc3', '\xed\xa0\x80', '\0', '}', ',', '{}'])}`,
        true,
      ),
    () => post('/graphql', `{"query":${JSON.stringify(pick(DOCUMENTS))},"query":"{ __typename }"}`, true),
    () => post('/graphql', `{"query":"{ pets { id } }","__proto__":{"x":${below(9)}}}`, true),
    () =>
      post(
        '/v1/pets',
        pick(NEW_PETS).replace('{', `{"${pick(['name', 'categoryId', '__proto__', 'constructor'])}":1,`),
        true,
      ),
    () => post(pick(['/graphql', '/v1/pets']), nest(below(5_000) + 200), true),
    () => post(pick(['/graphql', '/v1/pets']), ' '.repeat(20_001 + below(40_000)), true),
    () =>
      post(
        '/graphql',
        `[${Array(21 + below(50))
          .fill('{"query":"{ __typename }"}')
          .join()}]`,
        true,
      ),
    () => post(pick(['/graphql', '/v1/pets']), pick(NEW_PETS), true, { 'Content-Type': pick(BAD_TYPES) }),
    () => post(pick(['/graphql', '/v1/pets']), pick(NEW_PETS), true, { 'Content-Encoding': pick(['gzip', 'br', 'x']) }),
    () => post('/v1/pets', pick(NEW_PETS), true, { 'Idempotency-Key': pick(['', 'a b', '"', 'x'.repeat(300)]) }),
    () => post('/v1/pets', pick(NEW_PETS), true, { Authorization: damageKey() }),
    () => ({ kind: 'request', path: `/v1/pets?${pick(BAD_QUERIES)}`, method: 'GET', headers, isBad: true }),
    () => ({
      kind: 'request',
      path: `/v1/pets/${encodeURIComponent(pick(BAD_ID_TEXTS).toWellFormed())}x`,
      method: 'GET',
      headers,
      isBad: true,
    }),
    () => ({
      kind: 'raw',
      bytes: Array.from({ length: 1 + below(300) }, () => String.fromCharCode(below(256))).join(''),
    }),
  ];
  return { next: () => pick(kinds)() };

  /** Removes, repeats or inserts text in up to four places. The inserts are hard for parsers. */
  function damage(text: string): string {
    let damaged = text;
    for (let times = 1 + below(4); times > 0; times--) {
      const at = below(damaged.length + 1);
      const length = below(8);
      const before = damaged.slice(0, at);
      const after = damaged.slice(at + pick([0, length]));
      damaged = before + pick([pick(STUMBLING_BLOCKS), damaged.slice(at, at + length).repeat(2), '']) + after;
    }
    return damaged;
  }

  /** Damages a path but keeps it valid for `fetch`. */
  function damagePath(path: string): string {
    return `/${encodeURI(damage(path).toWellFormed()).replace(/^\/+/, '')}`.replaceAll('#', '%23');
  }

  function damageKey(): string {
    const at = 6 + below(key.length - 6);
    return `Bearer ${key.slice(0, at)}${key[at] === 'x' ? 'y' : 'x'}${key.slice(at + 1)}`;
  }

  function badId(): unknown {
    return pick<() => unknown>([() => pick(BAD_IDS), () => value(2) ?? null, () => ({ id: 1 }), () => random()])();
  }

  function badLimit(): unknown {
    return pick([0, -1, 101, 1.5, 1e9, '5', null, true, [], {}, 2 ** 31, -(2 ** 40)]);
  }

  function badNewPet(kind: 'categoryId' | 'rest'): unknown {
    const good = { name: 'Rex', categoryId: 1 };
    return pick<unknown>([
      { ...good, name: pick(BAD_NAMES) },
      { ...good, categoryId: kind === 'rest' ? pick([...BAD_IDS, '1']) : pick(BAD_IDS) },
      { ...good, status: pick(['gone', 'Available', '', 1, [], {}, true, ...(kind === 'rest' ? [null] : [])]) },
      { ...good, [pick(['id', 'tag', 'constructor', 'toString', ''])]: value(1) },
      { name: 'Rex' },
      { categoryId: 1 },
      [good, good],
      null,
    ]);
  }

  /** Any JSON. */
  function value(depth: number): unknown {
    const size = below(4);
    switch (below(depth > 0 ? 8 : 6)) {
      case 0:
        return null;
      case 1:
        return random() < 0.5;
      case 2:
        return pick([0, -1, 1.5, 1e300, -0, 9007199254740993]);
      case 3:
      case 4:
        return pick(BAD_NAMES);
      case 5:
        return pick(['query', 'x'.repeat(500), '{ pets { id } }']);
      case 6:
        return Array.from({ length: size }, () => value(depth - 1));
      default:
        return Object.fromEntries(
          Array.from({ length: size }, () => [
            pick(['query', 'variables', 'name', 'id', '__proto__', '']),
            value(depth - 1),
          ]),
        );
    }
  }

  function nest(depth: number): string {
    const [open, close] = pick([
      ['[', ']'],
      ['{"a":', '}'],
      ['{"query":', '}'],
      ['{"name":', '}'],
    ] as const);
    return (
      open.repeat(depth).slice(0, 9_000 - (9_000 % open.length)) +
      (below(2) === 0 ? '1' : '1.5') +
      close.repeat(depth).slice(0, 9_000)
    );
  }
}

const ADD = 'mutation($input: NewPet!) { add: addPet(input: $input) { id name } }';

const DOCUMENTS = [
  '{ pets(limit: 2, status: AVAILABLE) { id name categoryId status } }',
  'query Q($v: ID!) { a: pet(id: $v) { ...F } b: pet(id: 2) { id } } fragment F on Pet { name }',
  'mutation { add: addPet(input: { name: "Rex \\u0041", categoryId: "9007199254740993", status: SOLD }) { id } }',
  ADD,
  '{ rateLimit { plan windows { limit remaining } } __typename }',
  '{ __schema { queryType { name } } pets @include(if: true) { id } }',
  '# comment\n{ pets { id } pet(id: """1""") { name } }',
];
const VARIABLES = [
  undefined,
  {},
  { v: 1 },
  { v: '9223372036854775807' },
  { input: { name: 'Žofka 猫', categoryId: 1 } },
];
const NEW_PETS = [
  '{"name":"Rex","categoryId":1}',
  '{"name":"Rex","categoryId":9223372036854775807,"status":"sold"}',
  '{"categoryId":-5,"name":"\\u017dofka \\ud83d\\ude00","status":"pending"}',
];
const METHODS = ['GET', 'GET', 'GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS'];
const PATHS = [
  '/v1/pets?limit=5&status=sold',
  '/v1/pets/1',
  '/v1/openapi.json',
  '/graphql?query={pets{id}}&variables={"a":1}',
  '/graphql?extensions={"persistedQuery":{"version":1,"sha256Hash":"00"}}',
  '/livez',
];
const REQUESTS = [
  'GET /v1/pets?limit=2 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer KEY\r\nConnection: close\r\n\r\n',
  'POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer KEY\r\nConnection: close\r\nContent-Length: 25\r\n\r\n{"query":"{ pets { id } }"}',
  'POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\n{"que\r\n0\r\n\r\n',
];
const STUMBLING_BLOCKS = [
  '\0',
  '\r\n',
  '\n',
  '"',
  '\\',
  '\\u0000',
  '\\ud800',
  '{',
  '}',
  '[',
  ']',
  '(',
  ')',
  ':',
  ',',
  '$',
  '@',
  '!',
  '...',
  '#',
  '"""',
  '%',
  '%00',
  '%ff',
  '&',
  '=',
  'null',
  'true',
  '-0',
  '1e999',
  '9223372036854775808',
  '__proto__',
  'constructor',
  'fragment',
  ' on ',
  '@skip(if: true)',
  '\xff',
  '\xc3\xa9',
  '\xed\xa0\x80',
  '\xf0\x9f\x98\x80',
];
const BAD_IDS = [
  '',
  ' ',
  '01',
  '+1',
  '1e3',
  '0x5',
  '1.0',
  '9223372036854775808',
  '-9223372036854775809',
  'NaN',
  '1 ',
  '\0',
  '１',
  '\ud800',
  "1' OR 1=1",
  1.5,
  1e300,
  true,
  null,
  [],
  {},
];
const BAD_ID_TEXTS = BAD_IDS.filter((id) => typeof id === 'string');
const BAD_NAMES = [
  '',
  ' ',
  '\t\n',
  '\0',
  'a\0b',
  '\ud800',
  'a\udc00',
  'x'.repeat(256),
  '\u3000',
  5,
  null,
  [],
  {},
  true,
];
const BAD_TYPES = [
  'text/plain',
  'text/html',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/json; charset=utf-16',
  'application/jsonx',
  ',',
  'application/graphql',
];
const BAD_QUERIES = [
  'limit=0',
  'limit=101',
  'limit=',
  'limit=1e1',
  'limit=+5',
  'limit=%201',
  'limit=1&limit=1',
  'status=SOLD',
  'status=',
  'status=sold&status=sold',
  'offset=1',
  'limit[]=1',
  '__proto__=1',
  'limit=%00',
  'limit=%ff',
  '=1',
];

/** Encodes a text as UTF-8, with one character for each byte. */
function toUtf8(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

/** Mulberry32, a small deterministic generator. */
function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
