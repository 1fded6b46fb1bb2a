/** Counts the tokens of a document, precisely enough to stay below the limit. */
function countTokens(text: string): number {
  return (text.match(/[A-Za-z0-9_]+|\.\.\.|"[^"]*"|[!$&():=@[\]{|}]/g) ?? []).length;
}

/** Repeats a part of a document up to just below the limit of 5,000 tokens. */
function fill(before: string, part: (index: number) => string, after = ''): string {
  let text = before;
  let left = 4_990 - countTokens(before) - countTokens(after);
  for (let index = 0; ; index++) {
    const next = ` ${part(index)}`;
    left -= countTokens(next);
    if (left < 0) return text + after;
    text += next;
  }
}

function list(count: number, part: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => part(index)).join(' ');
}

const nested = (depth: number) => `{ ${'...{ '.repeat(depth)}__typename ${'}'.repeat(depth)} }`;
const LONG = 'a'.repeat(900_000);

/** Documents that would take far more work than they are charged for. */
export const HOSTILE_DOCUMENTS: readonly (readonly [name: string, document: string])[] = [
  ['aliases: one root field too many', `{ ${list(101, (i) => `a${i}: pet(id: ${i}) { id }`)} }`],
  ['aliases: a thousand lookups', `{ ${list(1_000, (i) => `a${i}: pet(id: ${i}) { id }`)} }`],
  ['aliases of one animal', fill('{ pets {', (i) => `a${i}: name`, '} }')],
  ['aliases of introspection', fill('{ __schema {', (i) => `a${i}: types { name fields { name } }`, '} }')],
  ['duplicated root fields', fill('{', () => '__typename', '}')],
  ['duplicated root fields with selections', fill('{', () => 'pets { id }', '}')],
  ['duplicated root fields with conflicting arguments', fill('{', (i) => `pets(limit: ${i}) { id }`, '}')],
  ['duplicated fields', fill('{ pets {', () => 'id', '} }')],
  ['duplicated conflicting fields', fill('{ pets {', () => 'a: id a: name', '} }')],
  [
    'duplicated fields in pairs of fragments',
    `{ ${list(100, (i) => `a${i}: pets { ...F${i % 50} ...F${(i * 7 + 1) % 50} }`)} nonsense } ${list(50, (i) => `fragment F${i} on Pet { ${list(25, () => 'id')} }`)}`,
  ],
  ['duplicated fields in inline fragments', fill('{ pets {', () => '... { id }', '} }')],
  ['duplicated arguments', fill('{ pets(', () => 'limit: 1', ') { id } }')],
  ['duplicated input fields', fill('mutation { addPet(input: {', () => 'name: "x"', '}) { id } }')],
  ['a hundred thousand fields', `{ ${'pets { id } '.repeat(30_000)} }`],
  ['unknown fields', fill('{', (i) => `f${i}`, '}')],
  ['unknown fields of an animal', fill('{ pets {', (i) => `nam${i}`, '} }')],
  ['repeated directives', fill('{ __typename', () => '@skip(if: false)', '}')],
  ['unknown directives', fill('{ __typename', () => '@x', '}')],
  ['directives on every spread', fill('{ pets {', () => '...F @include(if: true)', '} } fragment F on Pet { id }')],
  ['fragment that spreads itself', '{ ...A } fragment A on Query { ...A }'],
  ['fragments in a cycle', '{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }'],
  ['fragments in a large cycle', `{ ...F0 } ${list(190, (i) => `fragment F${i} on Query { ...F${(i + 1) % 190} }`)}`],
  [
    'fragments in a chain',
    `{ ...F0 } ${list(190, (i) => `fragment F${i} on Query { ...F${i + 1} }`)} fragment F190 on Query { __typename }`,
  ],
  [
    'fragments that double at each level',
    `{ ...F0 } ${list(35, (i) => `fragment F${i} on Query { ...F${i + 1} ...F${i + 1} }`)} fragment F35 on Query { __typename }`,
  ],
  [
    'fragments that spread all later ones',
    `{ pets { ...F0 } } ${list(60, (i) => `fragment F${i} on Pet { ${list(59 - i, (j) => `...F${i + j + 1}`)} id }`)}`,
  ],
  [
    'fragments of one field each',
    `{ pets { ${list(190, (i) => `...F${i}`)} } } ${list(190, (i) => `fragment F${i} on Pet { id }`)}`,
  ],
  [
    'four hundred fragments',
    `{ pets { ${list(400, (i) => `...F${i}`)} } } ${list(400, (i) => `fragment F${i} on Pet { a: id }`)}`,
  ],
  ['a fragment spread repeatedly', fill('{ pets {', () => '...F', '} } fragment F on Pet { id name }')],
  ['a large unused fragment', fill('{ __typename } fragment F on Pet {', () => 'id', '}')],
  [
    'fragments that multiply introspection',
    `{ __schema { types { ...A } } } fragment A on __Type { ${list(20, (i) => `a${i}: fields { ...B }`)} }
     fragment B on __Field { ${list(20, (i) => `a${i}: type { ...C }`)} } fragment C on __Type { ${list(20, (i) => `a${i}: ofType { name }`)} }`,
  ],
  ['depth of introspection', `{ __schema { types { ${'fields { type { '.repeat(10)} name ${'} }'.repeat(10)} } } }`],
  ['depth of inline fragments', nested(60)],
  ['depth of inline fragments far beyond the stack', nested(50_000)],
  ['depth of a list type', `query($a: ${'['.repeat(3_000)}Int${']'.repeat(3_000)}) { __typename }`],
  ['depth of a list value', `{ pets(limit: ${'['.repeat(20_000)}1${']'.repeat(20_000)}) { id } }`],
  ['depth of an input object', `mutation { addPet(input: ${'{ name: '.repeat(2_000)}1${'}'.repeat(2_000)}) { id } }`],
  ['tokens: one too many', `{ ${'a '.repeat(4_999)} }`],
  ['tokens: a large list value', fill('{ pets(limit: [', () => '1', ']) { id } }')],
  ['tokens: a large object', fill('mutation { addPet(input: {', (i) => `f${i}: 1`, '}) { id } }')],
  ['tokens: variables', fill('query(', (i) => `$v${i}: Int`, ') { __typename }')],
  ['tokens: operations', fill('', (i) => `query Q${i} { __typename }`)],
  ['a long field name', `{ ${LONG} }`],
  ['a long fragment name', `{ ...${LONG} }`],
  ['a long argument name', `{ pets(${LONG}: 1) { id } }`],
  ['a long enum value', `{ pets(status: ${LONG}) { id } }`],
  ['a long type name', `query($a: ${LONG}) { __typename }`],
  ['a long number', `{ pets(limit: ${'1'.repeat(900_000)}) { id } }`],
  ['one unclosed string', `"${LONG}`],
  ['backslashes and unclosed strings', '"\\'.repeat(200_000)],
  ['backslashes and unclosed strings, not too long', '"\\'.repeat(99_000)],
  ['an unclosed block string, not too long', `"""${'\\"""'.repeat(49_000)}`],
  ['unclosed block strings', '\\"""\n'.repeat(100_000)],
  ['an endless comment', '#{'.repeat(200_000)],
  [
    'line breaks before a hundred errors',
    `{${'\n'.repeat(2_100)}${list(100, (i) => `a${i}: pets(limit: 500) { id }`)} }`,
  ],
  [
    'a great many line breaks before conflicts',
    `{${'\r'.repeat(190_000)}${list(5, (i) => `a${i}: pets { ${list(20, (j) => `b${j}: id`)} } a${i}: pets { ${list(20, (j) => `b${j}: name`)} }`)} }`,
  ],
  ['a NUL', '{ \0 }'],
  ['an unpaired surrogate', '{ pet(id: "\ud800") { id } }'],
  ['names of prototypes', '{ __proto__ constructor toString }'],
  ['fragments named like prototypes', '{ ...constructor ...toString ...__proto__ }'],
];

const deep = (open: string, close: string) => `${open.repeat(100_000)}1${close.repeat(100_000)}`;
const LOOKUP = '"query":"query($id: ID!) { pet(id: $id) { id } }"';

/** Hostile request bodies. */
export const HOSTILE_BODIES: readonly (readonly [name: string, body: string])[] = [
  ['deep objects in variables', `{${LOOKUP},"variables":{"id":${deep('{"a":', '}')}}}`],
  ['deep arrays in variables', `{${LOOKUP},"variables":{"id":${deep('[', ']')}}}`],
  ['deep arrays with a fraction', `{${LOOKUP},"variables":{"id":${deep('[', ']').replace('1', '1.5')}}}`],
  ['deep extensions', `{${LOOKUP},"extensions":${deep('{"a":', '}')}}`],
  ['deep batches', deep('[', ']')],
  [
    'a hundred thousand variables',
    `{${LOOKUP},"variables":{"id":1${list(60_000, (i) => `,"v${i}":1`).replaceAll(' ', '')}}}`,
  ],
  ['a variable of a million elements', `{${LOOKUP},"variables":{"id":[${'1,'.repeat(400_000)}1]}}`],
  ['a variable of fractions', `{${LOOKUP},"variables":{"id":[${'1.5,'.repeat(240_000)}1]}}`],
  ['a batch beyond MAX_BATCH', `[${Array(21).fill('{"query":"{ __typename }"}').join()}]`],
  ['a batch of half a million', `[${'0,'.repeat(500_000)}0]`],
  ['an empty batch', '[]'],
  [
    'a batch of different full documents',
    `[${list(20, (i) => JSON.stringify({ query: fill(`{ a${i}: __typename`, () => 'pets { id }', '}') })).replaceAll('} {"query', '},{"query')}]`,
  ],
  [
    'a batch of one full document',
    `[${Array(20)
      .fill(JSON.stringify({ query: fill('{', () => 'pets { id }', '}') }))
      .join()}]`,
  ],
  ['query twice', '{"query":"{ __typename }","query":"{ pets { id } }"}'],
  ['query twice, the second with a space before the colon', '{"query":"{ __typename }","query" :"{ pets { id } }"}'],
  ['query twice, the second escaped', '{"query":"{ __typename }","\\u0071uery":"{ pets { id } }"}'],
  ['a variable twice', `{${LOOKUP},"variables":{"id":"1","id":"2"}}`],
  ['a variable twice with a large number', `{${LOOKUP},"variables":{"id":9007199254740993,"id":9007199254740993}}`],
  ['a prototype beside the query', '{"query":"{ __typename }","__proto__":{"query":"{ pets { id } }"}}'],
  ['a prototype with the query', '{"__proto__":{"query":"{ __typename }"}}'],
  ['a prototype with the variables', `{${LOOKUP},"variables":{"__proto__":{"id":1}}}`],
  ['a prototype with the variables and a fraction', `{${LOOKUP},"variables":{"__proto__":{"id":1},"x":1.5}}`],
  [
    'a prototype in an input object',
    '{"query":"mutation($i: NewPet!) { addPet(input: $i) { id } }","variables":{"i":{"__proto__":{"name":"x","categoryId":1}}}}',
  ],
  [
    'a constructor in an input object',
    '{"query":"mutation($i: NewPet!) { addPet(input: $i) { id } }","variables":{"i":{"name":"x","categoryId":1,"constructor":{}}}}',
  ],
  ['an operationName with a NUL', '{"query":"{ __typename }","operationName":"\\u0000"}'],
  ['an operationName of a prototype', '{"query":"{ __typename }","operationName":"__proto__"}'],
  ['an unpaired surrogate in the query', '{"query":"{ pet(id: \\"\\ud800\\") { id } }"}'],
  ['a persisted query of a prototype', '{"extensions":{"persistedQuery":{"__proto__":{"version":1}}}}'],
];
