export const STATUSES = ['AVAILABLE', 'PENDING', 'SOLD'] as const;

/** https://en.wikipedia.org/wiki/Linear_congruential_generator */
export function createRandom(start: number) {
  let state = start;
  const next = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  return {
    next,
    pick: <T>(list: readonly T[]): T => list[next(list.length)] as T,
    chance: (n: number) => next(n) === 0,
  };
}

/** Draws a valid operation and its variables. */
export function draw({ next, pick, chance }: ReturnType<typeof createRandom>) {
  const isMutation = chance(4);
  const type = isMutation ? 'Mutation' : 'Query';
  const many = (most: number, one: () => string): string => Array.from({ length: 1 + next(most) }, one).join(' ');
  const directive = (): string =>
    chance(3) ? ` @${pick(['skip', 'include'])}(if: ${pick(['true', 'false', '$yes', '$no'])})` : '';
  const leaf = (): string => {
    const name = pick(['id', 'name', 'categoryId', 'status', '__typename']);
    // An alias names its field, so that no two selections conflict.
    return `${chance(3) ? `${name.replaceAll('_', '')}${next(2)}: ` : ''}${name}${directive()}`;
  };
  const animal = (depth = 0): string =>
    many(4, () => {
      if (depth > 2 || chance(2)) return leaf();
      return pick([
        `...P${directive()}`,
        `...${directive()} { ${animal(depth + 1)} }`,
        `... on Pet { ${animal(depth + 1)} }`,
      ]);
    });
  let roots = 0;
  const root = (): string => {
    roots += 1;
    const alias = chance(5) ? '' : `r${roots}: `;
    if (chance(8)) return `${alias || `t${roots}: `}__typename${directive()}`;
    // Equal fields without an alias merge.
    if (isMutation) {
      const input = pick([
        '{ name: "Rex", categoryId: 7 }',
        '$input',
        '{ name: " ", categoryId: 1 }',
        '{ name: "fails", categoryId: $id }',
      ]);
      return `m${roots}: addPet(input: ${input})${directive()} { ${animal()} }`;
    }
    if (alias === '') return `pets(limit: 3)${directive()} { ${animal()} }`;
    if (chance(2)) return `${alias}pet(id: ${pick(['1', '"2"', '404', '$id'])})${directive()} { ${animal()} }`;
    const args = pick([
      '',
      '(limit: 2)',
      '(limit: $n)',
      '(status: $s)',
      '(limit: 0)',
      '(status: SOLD, limit: 5)',
      '(after: "1", limit: 2)',
      '(after: $id)',
    ]);
    return `${alias}pets${args}${directive()} { ${animal()} }`;
  };
  const body = many(4, () => (chance(6) ? `... on ${type}${directive()} { ${root()} ${root()} }` : root()));
  const fragment = `fragment P on Pet { ${many(3, leaf)} }`;
  const variables = {
    yes: true,
    no: false,
    ...(chance(2) && { id: pick<unknown>(['1', 2, '404']) }),
    ...(chance(2) && { n: pick<unknown>([1, 2, 200, null]) }),
    ...(chance(2) && { s: pick<unknown>([...STATUSES, null]) }),
    input: {
      name: pick(['Rex', '猫', ' ']),
      categoryId: pick<unknown>(['5', 6]),
      ...(chance(2) && { status: pick([...STATUSES, null]) }),
    },
  };
  const definitions = '$yes: Boolean!, $no: Boolean!, $id: ID! = 3, $n: Int = 4, $s: PetStatus, $input: NewPet!';
  // All variables and the fragment have to be used.
  const used = isMutation
    ? 'u: addPet(input: { name: "used", categoryId: $id }) @skip(if: $no) { id @include(if: $yes) ...P } v: addPet(input: $input) { status }'
    : 'u: pets(limit: $n, status: $s) @skip(if: $no) { id @include(if: $yes) ...P } v: pet(id: $id) { id }';
  const names = isMutation
    ? definitions.replace('$n: Int = 4, $s: PetStatus, ', '')
    : definitions.replace(', $input: NewPet!', '');
  return { query: `${type.toLowerCase()} Q(${names}) { ${body} ${used} } ${fragment}`, variables };
}
