import { readdirSync, readFileSync } from 'node:fs';
import { buildSchema, graphqlSync } from 'graphql';
import { animal, ANIMAL_COUNT, list } from './animals.mjs';

const FIELDS = 'id name categoryId status';
const range = (count) => Array.from({ length: count }, (_, index) => index);

function lookup(count) {
  const parameters = range(count).map((index) => `$i${index}: ID!`);
  const fields = range(count).map((index) => `p${index}: pet(id: $i${index}) { ${FIELDS} }`);
  return `query Lookup${count}(${parameters.join(', ')}) { ${fields.join(' ')} }`;
}

/** The documents that the pages of a shop would contain. The recorder hands them to each client. */
export const DOCUMENTS = {
  pets: `query Pets($limit: Int!, $status: PetStatus) { pets(limit: $limit, status: $status) { ${FIELDS} } }`,
  petsInclude: `query PetsInclude($limit: Int!, $status: PetStatus, $withStatus: Boolean!) { pets(limit: $limit, status: $status) { id name categoryId status @include(if: $withStatus) } }`,
  lookup1: lookup(1),
  lookup5: lookup(5),
  lookup50: lookup(50),
  add: `mutation Add($input: NewPet!) { addPet(input: $input) { ${FIELDS} } }`,
};

export const toVariables = (ids) => Object.fromEntries(ids.map((id, index) => [`i${index}`, id]));

const schemaFolder = new URL('../schema/', import.meta.url);

/** The schema of this project. All servers in the benchmark serve it. */
export const TYPE_DEFINITIONS = readdirSync(schemaFolder)
  .filter((name) => name.endsWith('.graphql'))
  .map((name) => readFileSync(new URL(name, schemaFolder), 'utf8'))
  .join('\n');

const toPet = ({ status, ...rest }) => ({ ...rest, status: status?.toUpperCase() ?? null });
const rootValue = {
  pets: ({ limit, status }) => list(limit, status?.toLowerCase()).map(toPet),
  pet: ({ id }) => toPet(animal(Number(id))),
  addPet: ({ input }) => ({ status: null, ...input, id: String(ANIMAL_COUNT + 1) }),
};
let schema;

/** The response that is correct for a GraphQL request, by the reference implementation of GraphQL. */
export function respond({ query, variables, operationName }) {
  schema ??= buildSchema(TYPE_DEFINITIONS);
  return graphqlSync({ schema, source: query, rootValue, variableValues: variables, operationName });
}

/** The operation in the query string of a GET. */
export function fromQueryString(path) {
  const { query, variables, operationName } = Object.fromEntries(new URL(path, 'http://host').searchParams);
  return { query, operationName, variables: JSON.parse(variables) };
}
