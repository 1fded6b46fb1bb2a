import type { FieldNode } from 'graphql';
import type { Pet, PetStatus } from '../../pets/pet.js';
import { toWhole } from '../../pets/pet-prefix.js';

/** Writes what an operation selects of animals as JSON text. */
export interface PetWriter {
  write(pet: Pet): string;
  /** Writes a list. Lists that were cut from the same longer one are written once. */
  writeList(pets: readonly Pet[]): string;
}

type FieldWriter = (pet: Pet) => string;

const STATUSES: Readonly<Record<PetStatus, string>> = {
  available: '"AVAILABLE"',
  pending: '"PENDING"',
  sold: '"SOLD"',
};

/** Most names hold nothing that JSON escapes: https://www.rfc-editor.org/rfc/rfc8259#section-7, and unpaired surrogates. */
const NEEDS_ESCAPING = /["\\\u0000-\u001f\ud800-\udfff]/;

/** How each field of Pet is written. Identifiers are digits, which need no escaping. */
const FIELDS: Readonly<Record<string, FieldWriter>> = {
  __typename: () => '"Pet"',
  id: ({ id }) => `"${id}"`,
  name: ({ name }) => (NEEDS_ESCAPING.test(name) ? JSON.stringify(name) : `"${name}"`),
  categoryId: ({ categoryId }) => `"${categoryId}"`,
  status: ({ status }) => (status === undefined ? 'null' : STATUSES[status]),
};

/** A list as text, and where in it each animal ends. */
interface WrittenList {
  readonly text: string;
  readonly ends: readonly number[];
}

const WRITTEN = Symbol('what has been written of this list, by which writer');

/** Requests whose lists were read together find there what the first of them wrote; it goes when the list goes. */
interface SharedList extends ReadonlyArray<Pet> {
  [WRITTEN]?: Map<PetWriter, WrittenList>;
}

/**
 * Compiles a selection of Pet.
 * @param selected - the fields by their response keys
 * @returns undefined when a field is selected that is not known here
 */
export function compilePetWriter(selected: ReadonlyMap<string, readonly FieldNode[]>): PetWriter | undefined {
  const parts: { readonly prefix: string; readonly write: FieldWriter }[] = [];
  for (const [responseKey, [field]] of selected) {
    const write = field && FIELDS[field.name.value];
    if (!write) return undefined;
    parts.push({ prefix: `${parts.length === 0 ? '{' : ','}"${responseKey}":`, write });
  }
  const writer: PetWriter = {
    write,
    writeList(pets) {
      if (pets.length === 0) return '[]';
      const { text, ends } = writeWhole(toWhole(pets));
      return `${text.slice(0, ends[pets.length - 1])}]`;
    },
  };
  return writer;

  function write(pet: Pet): string {
    let text = '';
    for (const { prefix, write: writeField } of parts) text += prefix + writeField(pet);
    return `${text}}`;
  }

  function writeWhole(pets: SharedList): WrittenList {
    const known = pets[WRITTEN]?.get(writer);
    if (known) return known;
    const ends: number[] = [];
    let text = '[';
    for (const pet of pets) {
      text += ends.length === 0 ? write(pet) : `,${write(pet)}`;
      ends.push(text.length);
    }
    const written = { text, ends };
    pets[WRITTEN] = (pets[WRITTEN] ?? new Map<PetWriter, WrittenList>()).set(writer, written);
    return written;
  }
}
