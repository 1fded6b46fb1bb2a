/** What GraphiQL stores of operations that were run, with the headers of each. */
const HISTORY: readonly string[] = ['graphiql:queries', 'graphiql:favorites'];

/** The browser's storage, except that the history keeps no headers: one of them may be a key. */
export const historyWithoutHeaders: Storage = {
  key: (index) => localStorage.key(index),
  getItem: (name) => localStorage.getItem(name),
  removeItem: (name) => localStorage.removeItem(name),
  clear: () => localStorage.clear(),
  get length() {
    return localStorage.length;
  },
  setItem: (name, value) => localStorage.setItem(name, HISTORY.includes(name) ? withoutHeaders(value) : value),
};

/** Removes the headers that an earlier version of this page has stored. */
export function cleanHistory(): void {
  for (const name of HISTORY) {
    const value = localStorage.getItem(name);
    if (value !== null) historyWithoutHeaders.setItem(name, value);
  }
}

function withoutHeaders(history: string): string {
  return JSON.stringify(
    JSON.parse(history, (name, value: unknown) => (name === 'headers' ? undefined : value)) as unknown,
  );
}
