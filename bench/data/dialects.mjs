/**
 * How each kind of server is asked. A dialect turns an operation into a GraphQL request, and the `data` of an answer
 * into the animals it speaks of, in the form of animals.mjs, so that all servers are held to the same answer.
 */
const FIELDS = '{ id name categoryId status }';

const aliases = (ids) => ids.map((_, index) => `p${index}`);
const variablesOf = (ids, toValue = (id) => id) =>
  Object.fromEntries(ids.map((id, index) => [`i${index}`, toValue(id)]));
const lookupDocument = (ids, type, field, argument, fields) =>
  `query Lookup(${ids.map((_, index) => `$i${index}: ${type}`).join(', ')}) { ${ids
    .map((_, index) => `p${index}: ${field}(${argument}: $i${index}) ${fields}`)
    .join(' ')} }`;
const upper = (status) => status?.toUpperCase();

/** The schema of this project, which all hand-written peers serve too. */
const animalStore = {
  toRequest(operation) {
    switch (operation.kind) {
      case 'list':
        if (operation.literal) return { query: `{ pets(limit: ${operation.limit}) ${FIELDS} }` };
        return {
          query: `query List($limit: Int!, $status: PetStatus) { pets(limit: $limit, status: $status) ${FIELDS} }`,
          variables: { limit: operation.limit, status: upper(operation.status) },
        };
      case 'lookup':
        return {
          query: lookupDocument(operation.ids, 'ID!', 'pet', 'id', FIELDS),
          variables: variablesOf(operation.ids),
        };
      case 'add':
        return {
          query: `mutation Add($input: NewPet!) { addPet(input: $input) ${FIELDS} }`,
          variables: {
            input: { name: operation.name, categoryId: operation.categoryId, status: upper(operation.status) },
          },
        };
      default:
        throw new Error(`no such kind: ${operation.kind}`);
    }
  },
  toAnimals(data, operation) {
    const found =
      operation.kind === 'list'
        ? data.pets
        : operation.kind === 'lookup'
          ? aliases(operation.ids).map((alias) => data[alias])
          : [data.addPet];
    return found.map(({ status, ...rest }) => ({ ...rest, status: status === null ? null : status.toLowerCase() }));
  },
};

const GRAPHILE_FIELDS = '{ rowId name categoryId status }';

/** What PostGraphile makes of the table `pets`. */
const postgraphile = {
  toRequest(operation) {
    switch (operation.kind) {
      case 'list':
        if (operation.literal) {
          return { query: `{ allPetsList(first: ${operation.limit}, orderBy: PRIMARY_KEY_ASC) ${GRAPHILE_FIELDS} }` };
        }
        return {
          query: `query List($limit: Int!, $condition: PetCondition) { allPetsList(first: $limit, condition: $condition, orderBy: PRIMARY_KEY_ASC) ${GRAPHILE_FIELDS} }`,
          variables: { limit: operation.limit, condition: operation.status && { status: operation.status } },
        };
      case 'lookup':
        return {
          query: lookupDocument(operation.ids, 'BigInt!', 'petByRowId', 'rowId', GRAPHILE_FIELDS),
          variables: variablesOf(operation.ids),
        };
      case 'add':
        return {
          query: `mutation Add($input: CreatePetInput!) { createPet(input: $input) { pet ${GRAPHILE_FIELDS} } }`,
          variables: {
            input: { pet: { name: operation.name, categoryId: operation.categoryId, status: operation.status } },
          },
        };
      default:
        throw new Error(`no such kind: ${operation.kind}`);
    }
  },
  toAnimals(data, operation) {
    const found =
      operation.kind === 'list'
        ? data.allPetsList
        : operation.kind === 'lookup'
          ? aliases(operation.ids).map((alias) => data[alias])
          : [data.createPet.pet];
    return found.map(({ rowId, name, categoryId, status }) => ({ id: rowId, name, categoryId, status }));
  },
};

/** What Hive Gateway makes of this program's OpenAPI document. */
const hive = {
  toRequest(operation) {
    switch (operation.kind) {
      case 'list':
        if (operation.literal) return { query: `{ listPets(limit: ${operation.limit}) ${FIELDS} }` };
        return {
          query: `query List($limit: PositiveInt!, $status: queryInput_listPets_status) { listPets(limit: $limit, status: $status) ${FIELDS} }`,
          variables: { limit: operation.limit, status: operation.status },
        };
      case 'lookup':
        return {
          query: lookupDocument(operation.ids, 'BigInt!', 'getPet', 'petId', FIELDS),
          variables: variablesOf(operation.ids, Number),
        };
      case 'add':
        return {
          query: `mutation Add($input: NewPet_Input!) { createPet(input: $input) ${FIELDS} }`,
          variables: {
            input: { name: operation.name, categoryId: Number(operation.categoryId), status: operation.status },
          },
        };
      default:
        throw new Error(`no such kind: ${operation.kind}`);
    }
  },
  toAnimals(data, operation) {
    const found =
      operation.kind === 'list'
        ? data.listPets
        : operation.kind === 'lookup'
          ? aliases(operation.ids).map((alias) => data[alias])
          : [data.createPet];
    return found.map(({ id, name, categoryId, status }) => ({
      id: String(id),
      name,
      categoryId: String(categoryId),
      status,
    }));
  },
};

export const DIALECTS = { animalStore, postgraphile, hive };
