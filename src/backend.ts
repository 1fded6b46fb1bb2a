import { hash } from 'node:crypto';
import type { Access } from './access/session.js';
import type { DeprecatedCallCounter } from './store/deprecated-calls.js';
import type { FirstStart } from './store/first-start.js';
import type { LoadShedderOptions } from './http/load-shedder.js';
import type { PetSource } from './pets/pet-source.js';

/** What stands behind the faces of the program. */
export interface Backend {
  readonly source: PetSource;
  readonly access: Access;
  /** Absent before another store: that one knows the keys, and counts. */
  readonly deprecatedCalls?: DeprecatedCallCounter;
  /** True when the animals live here: then the process is an animal store itself, and serves REST too. */
  readonly isStore: boolean;
  /** Fills an empty embedded store, once the port is had: a start that fails leaves it empty for the next one. */
  readonly fill?: (() => Promise<FirstStart | undefined>) | undefined;
  /** Finds a key for trying things out, where there are such keys. */
  readonly findDevelopmentKey?: (() => Promise<string | undefined>) | undefined;
  /** When newcomers are refused. */
  readonly patience: Pick<LoadShedderOptions, 'budgetMs' | 'crowdBudgetMs'>;
  /** Rejects while the backend does not answer. */
  readonly check: () => Promise<unknown>;
  close(): Promise<void>;
}

/** Names a client address in Redis, where no more of people should stand than is needed to count. */
export function nameAddress(prefix: string, address: string): string {
  return `${prefix}{${hash('sha256', address, 'base64url').slice(0, 22)}}`;
}

/** Client addresses whose 401 answers are counted at the most. */
export const ADDRESS_CAPACITY = 50_000;
