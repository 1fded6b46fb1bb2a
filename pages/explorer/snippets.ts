/** An operation as the editors hold it. */
export interface Edited {
  readonly query: string;
  /** The operation that would run, if the document has several. */
  readonly operationName?: string | undefined;
  /** JSON, or empty. It stays text, because JavaScript would round large numbers. */
  readonly variables: string;
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Formats an operation as code that sends it to `url`.
 * @param key - the key, unless an `Authorization` header of the operation has another one; undefined for a placeholder
 */
type Format = (url: string, operation: Edited, key: string | undefined) => string;

/** What stands for a key in code that is to be shared. */
export const PLACEHOLDER = 'YOUR_KEY';

/** A command for a POSIX shell. */
export const toCurl: Format = (url, operation, key) => {
  const options = Object.entries(toHeaders(operation, key)).map(
    ([name, value]) => `  -H ${quote(`${name}: ${value}`)} \\\n`,
  );
  return `curl ${url} \\\n${options.join('')}  -d ${quote(toBody(operation))}`;
};

/** JavaScript, as a module. */
export const toFetch: Format = (url, operation, key) => `const response = await fetch(${JSON.stringify(url)}, {
  method: 'POST',
  headers: ${JSON.stringify(toHeaders(operation, key), null, 2).replaceAll('\n', '\n  ')},
  body: ${JSON.stringify(toBody(operation))},
});
console.log(response.status, await response.json());`;

function toHeaders({ headers }: Edited, key: string | undefined): Record<string, string> {
  const all = new Headers({ Authorization: `Bearer ${key || PLACEHOLDER}`, 'Content-Type': 'application/json' });
  for (const [name, value] of Object.entries(headers)) {
    if (key !== undefined || name.toLowerCase() !== 'authorization') all.set(name, value);
  }
  return Object.fromEntries(all);
}

function toBody({ query, operationName, variables }: Edited): string {
  const name = operationName === undefined ? '' : `,"operationName":${JSON.stringify(operationName)}`;
  return `{"query":${JSON.stringify(query)}${name}${variables.trim() && `,"variables":${variables}`}}`;
}

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
