import { setTimeout as sleep } from 'node:timers/promises';
import type { Cooldowns } from './access/cooldown.js';
import type { Ledger } from './access/ledger.js';
import type { MemoryLedger } from './access/memory-ledger.js';
import type { OwnKeys } from './access/own-keys.js';
import type { Access } from './access/session.js';
import type { UsageCounter } from './access/usage.js';
import { ConfigError, type Config } from './config.js';
import { StoreError } from './errors.js';
import type { Log } from './observability/log.js';
import type { PetSource } from './pets/pet-source.js';
import type { DevelopmentKeys, FirstStart } from './store/first-start.js';

/** A store or a proxy to one, behind GraphQL and REST. */
export interface Backend {
  readonly source: PetSource;
  readonly access: Access;
  /** Absent in proxy mode, like `ownKeys` and `hasKeys`: the upstream knows the keys and counts their usage. */
  readonly usage?: UsageCounter;
  readonly ownKeys?: OwnKeys;
  /** The process then serves REST too. */
  readonly isStore: boolean;
  /** Fills an empty embedded store. Called after the server listens, so a failed start leaves the store empty. */
  readonly fill?: () => Promise<FirstStart | undefined>;
  readonly hasKeys?: () => Promise<boolean>;
  /** Absent if the backend has none. */
  readonly findDevelopmentKeys?: () => Promise<DevelopmentKeys | undefined>;
  /**
   * Rejects while the backend does not answer. Resolves with a reason if it answers, but the program cannot work with
   * it, otherwise with undefined.
   */
  readonly check: () => Promise<string | undefined>;
  close(): Promise<void>;
}

/** Whose requests a ledger counts. */
export type AccountKind = `${'store' | 'proxy'}:${'key' | 'address'}`;

/** What instances share through Redis, or count alone without it. */
export interface Sharing {
  readonly isUp: () => boolean;
  readonly ledger: (local: MemoryLedger, kind: AccountKind, bans?: Config['bans']) => Ledger;
  readonly cooldowns: () => Cooldowns;
  readonly close: () => void;
}

export type WaitUntilAvailable = ReturnType<typeof createStartupWait>;

const RETRY_MS = 500;
/**
 * Codes that waiting does not help: of TLS and certificates, and of PostgreSQL for a wrong password or database name, and
 * a missing permission.
 */
const HOPELESS = /CERT|^ERR_TLS|^ERR_SSL|UNABLE_TO_VERIFY|HOSTNAME_MISMATCH|^28|^3D|^42501$/;

/**
 * Creates the function with which the program waits for what it depends on.
 * @param timeoutMs - how long to wait, for everything together
 */
export function createStartupWait(log: Log, timeoutMs: number, signal?: AbortSignal) {
  const deadline = performance.now() + timeoutMs;
  /**
   * @param what - the variable and what it names
   * @param attempt - throws a StoreError while it is unavailable
   * @throws ConfigError if waiting does not help, or is over; any other error of `attempt`
   */
  return async <T>(what: string, attempt: () => Promise<T>): Promise<T> => {
    for (let hasWaited = false; ; hasWaited = true) {
      try {
        const result = await attempt();
        if (hasWaited) log.info(`${what} that is available now`);
        return result;
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        const { code = '' } = (error.cause ?? {}) as NodeJS.ErrnoException;
        // PgBouncer has one code for all that it refuses, and for what the server behind it refuses for a while.
        if (reasonOf(error).startsWith('unsupported startup parameter'))
          throw unreachable(what, error, '. A pooler may need DATABASE_PREPARE=false');
        if (HOPELESS.test(code)) throw unreachable(what, error);
        const remaining = deadline - performance.now();
        if (remaining <= 0) throw unreachable(what, error, ` (waited for ${timeoutMs / 1_000} s)`);
        if (!hasWaited)
          log.warn({ reason: reasonOf(error), timeoutMs }, `${what} that is not available: waiting for it`);
        await sleep(Math.min(RETRY_MS, remaining), undefined, { signal });
      }
    }
  };
}

/** @param what - the variable and what it names */
export function unreachable(what: string, error: StoreError, hint = ''): ConfigError {
  return new ConfigError(`${what} that is not available: ${reasonOf(error)}${hint}`);
}

/** Operators need the cause, which clients do not see. */
function reasonOf({ message, cause }: StoreError): string {
  if (!(cause instanceof Error)) return message;
  return cause.message || ((cause as NodeJS.ErrnoException).code ?? message);
}
