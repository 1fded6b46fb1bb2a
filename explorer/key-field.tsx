import { useEffect, useState } from 'react';

/** Where the key in use came from. */
export type KeyOrigin = 'none' | 'pasted' | 'development';

const HINTS: Readonly<Record<KeyOrigin, string>> = {
  none: 'Kept in this tab alone.',
  pasted: 'Kept in this tab alone.',
  development: 'The development key of the free plan. Kept in this tab alone.',
};

export interface KeyFieldProps {
  readonly value: string;
  readonly origin: KeyOrigin;
  /** Called with the key once it has been pasted, or typed and left. */
  readonly onChange: (key: string) => void;
}

/** The place for the API key. */
export function KeyField({ value, origin, onChange }: KeyFieldProps) {
  const [text, setText] = useState(value);
  const [isShown, setShown] = useState(false);
  useEffect(() => setText(value), [value]);
  const commit = (typed: string): void => {
    const key = typed.trim().replace(/^bearer\s+/i, '');
    setText(key);
    if (key !== value) onChange(key);
  };
  return (
    <div className="key">
      <label htmlFor="key">API key</label>
      <input
        id="key"
        type={isShown ? 'text' : 'password'}
        autoComplete="off"
        spellCheck={false}
        placeholder="pets_…"
        aria-describedby="key-hint"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onBlur={() => commit(text)}
        onKeyDown={(event) => {
          if (event.key === 'Enter') commit(text);
        }}
        onPaste={(event) => {
          event.preventDefault();
          commit(event.clipboardData.getData('text'));
        }}
      />
      <button type="button" aria-pressed={isShown} onClick={() => setShown(!isShown)}>
        {isShown ? 'Hide' : 'Show'}
      </button>
      <span id="key-hint" className="hint">
        {HINTS[origin]}
      </span>
    </div>
  );
}
