import { useEffect, useState } from 'react';

/** The origin of the current key. */
export type KeyOrigin = 'none' | 'pasted' | 'development';

export interface KeyFieldProps {
  readonly value: string;
  readonly origin: KeyOrigin;
  /** The plan of the key. Undefined until it is known. */
  readonly plan: string | undefined;
  /** Called when the user pastes a key, presses Enter or leaves the field. */
  readonly onChange: (key: string) => void;
}

/** The field for the API key. It is masked, but not a password field, because browsers would offer to save the key. */
export function KeyField({ value, origin, plan, onChange }: KeyFieldProps) {
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
        className={isShown ? '' : 'masked'}
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
        {plan !== undefined && <b>{plan.toLowerCase()} plan, </b>}
        {origin === 'development' && 'development key, '}kept in this tab alone
      </span>
    </div>
  );
}
