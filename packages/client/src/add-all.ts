import type { CallOptions, NewPet, Pet } from './client.js';
import { isPetError, type PetError } from './pet-error.js';
import type { Run } from './queue.js';
import type { Field } from './request.js';

/** The most animals of one request. Never changed: the idempotency keys depend on it. */
const GROUP_SIZE = 20;

export interface AddAllOptions extends CallOptions {
  /**
   * The name of the import: 1 to 240 characters of printable ASCII without spaces or quotes. Within 24 hours, calls
   * with the same name and the same animals in the same order add each animal once.
   */
  readonly name: string;
  /** How many animals, from the first, are known to be added, and are passed over (default 0). */
  readonly skip?: number | undefined;
  /** Called as the import proceeds. After a crash, `done` can be the `skip` of the next call. */
  readonly onProgress?: ((progress: { readonly done: number }) => void) | undefined;
}

/** @param toInput - checks an animal */
export function createAddAll(run: Run, toInput: (pet: NewPet) => object | PetError) {
  let calls = 0;
  return async (
    pets: Iterable<NewPet> | AsyncIterable<NewPet>,
    { name, skip = 0, onProgress, signal }: AddAllOptions,
  ): Promise<(Pet | PetError)[]> => {
    const results: (Pet | PetError)[] = [];
    let fields: (Field & { readonly index: number })[] = [];
    let done = 0;
    const call = (calls += 1);
    for await (const pet of pets) {
      const index = done++;
      if (index < skip) continue;
      const input = toInput(pet);
      const idempotencyKey = `${name}/${Math.floor(index / GROUP_SIZE)}`;
      if (isPetError(input)) results[index - skip] = input;
      else {
        const position = index % GROUP_SIZE;
        // The store joins the additions of equal calls, but in a request of one they would take each other's positions.
        const group = `${call} ${idempotencyKey}`;
        fields.push({ kind: 'addPet', variables: { input }, idempotencyKey, group, position, index });
      }
      if (done % GROUP_SIZE === 0) await addGroup();
    }
    if (done % GROUP_SIZE > 0) await addGroup();
    return results;

    /** Gives up only if the waits that one call may take add no animal. */
    async function addGroup(): Promise<void> {
      if (fields.length === 0) onProgress?.({ done });
      while (fields.length > 0) {
        const answers = await run(fields, signal);
        const left = fields.filter(({ index }, at) => {
          const answer = answers[at] as Pet | PetError;
          if (isPetError(answer) && answer.code !== 'BAD_USER_INPUT') return true;
          results[index - skip] = answer;
          return false;
        });
        if (left.length === fields.length) throw answers[0] as PetError;
        fields = left;
        onProgress?.({ done: left[0]?.index ?? done });
      }
    }
  };
}
