import type { FormEvent } from 'react';

export function KeyForm({ value, onChange }: { readonly value: string; readonly onChange: (key: string) => void }) {
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    onChange(String(new FormData(event.currentTarget).get('key')).trim());
  };
  return (
    <form onSubmit={submit} className="row">
      <label>
        API key
        <input name="key" className="masked" autoComplete="off" spellCheck={false} defaultValue={value} required />
      </label>
      <button>Use this key</button>
    </form>
  );
}
