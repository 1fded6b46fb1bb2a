import { useMutation } from '@apollo/client/react';
import { useRef, type FormEvent } from 'react';
import { graphql } from './gql';
import type { PetStatus } from './gql/graphql';
import { StatusOptions } from './pet-list';
import { toRefusal } from './refusal';
import { RefusalNotice } from './refusal-notice';

const ADD_PET = graphql(`
  mutation AddPet($input: NewPet!) {
    addPet(input: $input) {
      id
      name
    }
  }
`);

export function AddPet() {
  // The list is requested again, which costs one more request: only the store knows what belongs to it now.
  const [addPet, { data, error, loading }] = useMutation(ADD_PET, { refetchQueries: ['ListPets'] });
  // One key for each animal. If the connection breaks and the user tries again, the store adds the animal once.
  const idempotencyKey = useRef<string>(undefined);

  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const fields = new FormData(form);
    const input = {
      name: String(fields.get('name')),
      // An identifier has 64 bits. It stays text, because a JavaScript number would round it.
      categoryId: String(fields.get('categoryId')),
      status: (fields.get('status') || null) as PetStatus | null,
    };
    const sentKey = (idempotencyKey.current ??= createIdempotencyKey());
    const headers = { 'Idempotency-Key': sentKey };
    // A failure stays in `error`, and the form keeps what was typed.
    addPet({ variables: { input }, context: { headers } }).then(
      () => {
        // Meanwhile, the user may have begun to type the next animal.
        if (idempotencyKey.current !== sentKey) return;
        form.reset();
        idempotencyKey.current = undefined;
      },
      () => undefined,
    );
  };

  return (
    // Another animal needs another key.
    <form onSubmit={submit} onChange={() => (idempotencyKey.current = undefined)} className="add">
      <h2>Add an animal</h2>
      <label>
        Name (required) <input name="name" maxLength={255} required />
      </label>
      <label>
        Category (required)
        <input name="categoryId" inputMode="numeric" required onInput={(event) => checkCategory(event.currentTarget)} />
      </label>
      <label>
        Status
        <select name="status">
          <option value="">none</option>
          <StatusOptions />
        </select>
      </label>
      <button disabled={loading}>Add</button>
      {error && <RefusalNotice refusal={toRefusal(error)} />}
      {data?.addPet && (
        <p role="status">
          {data.addPet.name} was added with the number {data.addPet.id}.
        </p>
      )}
    </form>
  );
}

/** The browser shows the message next to the field and does not submit the form. */
function checkCategory(field: HTMLInputElement): void {
  const isWhole = /^-?\d{1,19}$/.test(field.value);
  field.setCustomValidity(isWhole || field.value === '' ? '' : 'Category must be a whole number, such as 7.');
}

/** A random key. Unlike `crypto.randomUUID`, this also works on pages without TLS. */
function createIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
