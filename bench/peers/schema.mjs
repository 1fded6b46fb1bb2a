import { readFileSync } from 'node:fs';

/** The schema of this project: the hand-written peers serve the very same. */
export const TYPE_DEFINITIONS = readFileSync(new URL('../../schema/animal-store.graphql', import.meta.url), 'utf8');
