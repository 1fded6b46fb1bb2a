import { containsApiKey, parseBearer } from './api-key.js';

/** The header in which Apollo's clients send their name. Any other client may send it too. */
export const CLIENT_NAME_HEADER = 'apollographql-client-name';

/** Replaces a name that contains a key. */
const WITHHELD_NAME = '(withheld)';

/** Longer names are cut, in characters. */
const MAX_LENGTH = 100;
/** The control characters, white space and soft hyphen of Latin-1, the encoding in which Node reads headers. */
const INVISIBLE = /[^\x21-\x7e\xa1-\xac\xae-\xff]+/g;

/**
 * Parses the name of a client. The result is safe in a table, a log, a terminal and a header.
 * @param authorization - the header, because some clients send their key as their name
 */
export function parseClientName(header: string | undefined, authorization: string | undefined): string | undefined {
  if (!header) return undefined;
  const key = parseBearer(authorization);
  if (containsApiKey(header) || (key !== undefined && header.includes(key))) return WITHHELD_NAME;
  return header.replace(INVISIBLE, ' ').trim().slice(0, MAX_LENGTH).trimEnd() || undefined;
}
