// Looks up animals by id and prints a line of JSON for each, in order. See the README.md here.
import { readFile } from 'node:fs/promises';
import { createPetClient, isPetError } from 'animal-store-client';

const USAGE = 'usage: STORE_KEY=… node look-up.mjs ID… | --file FILE (ids separated by white space)';

async function readIds([first, ...rest]) {
  if (first !== '--file') return first === undefined ? [] : [first, ...rest];
  if (rest.length !== 1) return [];
  return (await readFile(rest[0], 'utf8')).split(/\s+/).filter((id) => id !== '');
}

const { STORE_URL = 'http://127.0.0.1:4000/graphql', STORE_KEY } = process.env;
const ids = await readIds(process.argv.slice(2));
if (ids.length === 0 || !STORE_KEY) {
  console.error(USAGE);
  process.exit(2);
}

const interrupted = new AbortController();
process.once('SIGINT', () => interrupted.abort());

// Eight requests at a time at most, whatever the number of ids. The client itself waits for the limits of the key.
const client = createPetClient({
  url: STORE_URL,
  key: STORE_KEY,
  clientName: 'look-up',
  concurrency: 8,
  onWait: ({ code, waitMs }) => console.error(`waiting for ${Math.ceil(waitMs / 1_000)} s: ${code}`),
});
try {
  const results = await client.loadMany(ids, { signal: interrupted.signal });
  results.forEach((result, index) => {
    const line = isPetError(result) ? { id: ids[index], error: result.code, message: result.message } : { pet: result };
    console.log(JSON.stringify(line));
  });
  if (results.some(isPetError)) process.exitCode = 1;
} catch (error) {
  console.error(error.name === 'AbortError' ? 'interrupted' : error.message);
  process.exitCode = 1;
}
