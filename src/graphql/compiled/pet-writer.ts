import type { FieldNode } from 'graphql';
import type { Pet, PetStatus } from '../../pets/pet.js';

/** Writes what an operation selects of an animal as JSON text. */
export type PetWriter = (pet: Pet) => string;

const STATUSES: Readonly<Record<PetStatus, string>> = {
  available: '"AVAILABLE"',
  pending: '"PENDING"',
  sold: '"SOLD"',
};

/** How each field of Pet is written. Identifiers are digits, which need no escaping. */
const FIELDS: Readonly<Record<string, PetWriter>> = {
  __typename: () => '"Pet"',
  id: ({ id }) => `"${id}"`,
  name: ({ name }) => JSON.stringify(name),
  categoryId: ({ categoryId }) => `"${categoryId}"`,
  status: ({ status }) => (status === undefined ? 'null' : STATUSES[status]),
};

/**
 * Compiles a selection of Pet.
 * @param selected - the fields by their response keys
 * @returns undefined when a field is selected that is not known here
 */
export function compilePetWriter(selected: ReadonlyMap<string, readonly FieldNode[]>): PetWriter | undefined {
  const parts: { readonly prefix: string; readonly write: PetWriter }[] = [];
  for (const [responseKey, [field]] of selected) {
    const write = field && FIELDS[field.name.value];
    if (!write) return undefined;
    parts.push({ prefix: `${parts.length === 0 ? '{' : ','}"${responseKey}":`, write });
  }
  return (pet) => {
    let text = '';
    for (const { prefix, write } of parts) text += prefix + write(pet);
    return `${text}}`;
  };
}
