import { containsApiKey } from './api-key.js';
import { parseBearer } from './bearer.js';

/** The header in which Apollo's clients, and whoever else wants to be known, name themselves. */
export const CLIENT_NAME_HEADER = 'apollographql-client-name';

/** Stands for a name that holds a key. */
export const WITHHELD_NAME = '(withheld)';

/** Characters of a name that are kept. */
const MAX_LENGTH = 100;
/** Headers arrive as Latin-1: control characters of both halves, white space and the invisible soft hyphen. */
const INVISIBLE = /[^\x21-\x7e\xa1-\xac\xae-\xff]+/g;

/**
 * Reads what a client calls itself, so that it may stand in a table, a log, a terminal and a header.
 * @param header - as it came: anything at all
 * @param authorization - the `Authorization` header: clients have been seen to send their key for a name
 * @returns undefined when there is no name
 */
export function parseClientName(header: string | undefined, authorization: string | undefined): string | undefined {
  if (!header) return undefined;
  if (containsApiKey(header) || holdsSentKey(header, authorization)) return WITHHELD_NAME;
  return header.replace(INVISIBLE, ' ').trim().slice(0, MAX_LENGTH).trimEnd() || undefined;
}

function holdsSentKey(header: string, authorization: string | undefined): boolean {
  const bearer = parseBearer(authorization);
  return bearer.kind === 'key' && header.includes(bearer.key);
}
