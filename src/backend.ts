import type { Access } from './access/session.js';
import type { UsageCounter } from './access/usage.js';
import type { DevelopmentKeys, FirstStart } from './store/first-start.js';
import type { PetSource } from './pets/pet-source.js';

/** A store or a proxy to one, behind GraphQL and REST. */
export interface Backend {
  readonly source: PetSource;
  readonly access: Access;
  /** Absent in proxy mode, because the upstream knows the keys and counts their usage. */
  readonly usage?: UsageCounter;
  /** True for a store backend. The process then serves REST too. */
  readonly isStore: boolean;
  /** Fills an empty embedded store. Called after the server listens, so a failed start leaves the store empty. */
  readonly fill?: (() => Promise<FirstStart | undefined>) | undefined;
  /** Whether there is any API key. Absent in proxy mode. */
  readonly hasKeys?: () => Promise<boolean>;
  /** Finds the development keys. Absent if the backend has none. */
  readonly findDevelopmentKeys?: (() => Promise<DevelopmentKeys | undefined>) | undefined;
  /** After this long in progress, a request is late (`http/scheduler.ts`), in milliseconds. */
  readonly lateMs: number;
  /**
   * Rejects while the backend does not answer. Resolves with a reason if it answers, but the program cannot work with
   * it, otherwise with undefined.
   */
  readonly check: () => Promise<string | undefined>;
  close(): Promise<void>;
}
