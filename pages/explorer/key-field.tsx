import { useEffect, useState } from 'react';
import type { DevelopmentKeys } from '../key-memory.js';

export interface KeyFieldProps {
  readonly value: string;
  /** The plan of the key. Undefined if it is not known. */
  readonly plan: string | undefined;
  /** The development keys to switch between. Empty if this tab has none. */
  readonly developmentKeys: DevelopmentKeys;
  /** Called when the user pastes a key, presses Enter or leaves the field. */
  readonly onChange: (key: string) => void;
}

/** The field for the API key. It is masked, but not a password field, because browsers would offer to save the key. */
export function KeyField({ value, plan, developmentKeys, onChange }: KeyFieldProps) {
  const [text, setText] = useState(value);
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
      {Object.keys(developmentKeys).length > 0 && (
        <select
          aria-label="Development key"
          value={Object.values(developmentKeys).includes(value) ? value : ''}
          onChange={(event) => onChange(event.target.value)}
        >
          <option value="" disabled>
            other key
          </option>
          {Object.entries(developmentKeys).map(([name, key]) => (
            <option key={name} value={key}>
              {name}
            </option>
          ))}
        </select>
      )}
      <span id="key-hint" className="hint">
        {plan !== undefined && <b>{plan.toLowerCase()} plan, </b>}kept in this tab only
      </span>
    </div>
  );
}
