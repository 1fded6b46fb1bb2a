import { useMutation } from '@apollo/client/react';
import type { FormEvent } from 'react';
import { graphql } from './gql';
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
  // The list is asked again, which costs one more request; the store alone knows what now belongs to it.
  const [addPet, { data, error, loading }] = useMutation(ADD_PET, { refetchQueries: ['ListPets'] });

  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const fields = new FormData(form);
    // An identifier is 64 bits wide: it stays text, since a JavaScript number would round it.
    const input = { name: String(fields.get('name')), categoryId: String(fields.get('categoryId')) };
    // A failure stays in `error`, with the form as it was filled in.
    addPet({ variables: { input } }).then(
      () => form.reset(),
      () => undefined,
    );
  };

  return (
    <form onSubmit={submit} className="add">
      <h2>Add an animal</h2>
      <label>
        Name <input name="name" />
      </label>
      <label>
        Category <input name="categoryId" inputMode="numeric" />
      </label>
      <button disabled={loading}>Add</button>
      {/* Not tried again unasked: after a broken connection nobody knows whether the animal was added. */}
      {error && <RefusalNotice refusal={toRefusal(error)} />}
      {data?.addPet && (
        <p role="status">
          {data.addPet.name} was added with the number {data.addPet.id}.
        </p>
      )}
    </form>
  );
}
