import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

/** Frees what can no longer be reached. */
export const collectGarbage = runInNewContext('gc') as () => void;
