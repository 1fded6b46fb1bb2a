import DataLoader from 'dataloader';
import { openSource } from './source.mjs';

export { TYPE_DEFINITIONS } from '../documents.mjs';

const source = openSource();

export const resolvers = {
  Query: {
    pets: (_, { limit, status }, { authorization }) => source.list(limit, status, authorization),
    pet: (_, { id }, { pets }) => pets.load(id),
  },
  Mutation: { addPet: (_, { input }, { authorization }) => source.add(input, authorization) },
};

/** The context of one HTTP request. */
export function createContext({ headers: { authorization } }) {
  return { authorization, pets: new DataLoader((ids) => source.findMany(ids, authorization)) };
}
