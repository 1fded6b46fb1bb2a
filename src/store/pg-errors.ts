import pg from 'pg';
import { StoreError } from '../errors.js';

// https://www.postgresql.org/docs/current/errcodes-appendix.html
export const READ_ONLY = '25006';
const STARTING_UP = '57P03';
/** The server has ended the session, or has become read-only. FATAL says so too, unless `lc_messages` translates it. */
const SESSION_OVER = /^08|^57P|^25(?:006|P0[34])$/;
export const DISK_FULL = '53100';
export const TOO_MANY_CONNECTIONS = '53300';
/** A table, column or function is missing, or a permission. */
export const UNUSABLE: ReadonlySet<unknown> = new Set(['42P01', '42703', '42883', '42501']);
/** Serialization failure and deadlock: PostgreSQL asks to repeat the transaction. */
export const UNDONE: ReadonlySet<unknown> = new Set(['40001', '40P01']);
/** A cached plan whose result has another type now, and a statement that the server no longer has. */
const OUTDATED: ReadonlySet<unknown> = new Set(['0A000', '26000']);
const UNAVAILABLE = /^(?:08|25|28|3D|53|55|57|58)/;

/** The code of PostgreSQL or of Node, also behind a StoreError. */
export function codeOf(error: unknown): string | undefined {
  return (((error as Error).cause ?? error) as NodeJS.ErrnoException).code;
}

/** Whether the connection failed or timed out, as opposed to an error that the server reported. */
export function isBroken(error: unknown): boolean {
  return !(error instanceof pg.DatabaseError) && !(error instanceof StoreError);
}

/** Whether the prepared statement of a connection is gone, or no longer fits the schema. Another connection may run it. */
export function isOutdated(error: unknown): boolean {
  return OUTDATED.has(codeOf(error));
}

function isFatal(error: unknown): boolean {
  return (error as pg.DatabaseError).severity === 'FATAL';
}

/** Whether the connection on which a statement failed should be closed. */
export function endsConnection(error: unknown): boolean {
  return isBroken(error) || isOutdated(error) || isFatal(error) || SESSION_OVER.test(codeOf(error) ?? '');
}

/** Whether the database cannot be used now. */
export function isUnavailable(error: unknown): boolean {
  return isBroken(error) || isFatal(error) || UNAVAILABLE.test(codeOf(error) ?? '');
}

/** Whether another host may run a statement. A write whose connection broke may have happened. */
export function mayMove(error: unknown, isWrite: boolean): boolean {
  if (!isWrite) return isUnavailable(error);
  return (
    (error as NodeJS.ErrnoException).syscall === 'connect' || [READ_ONLY, STARTING_UP].includes(codeOf(error) ?? '')
  );
}

/** Replaces an error of an unavailable database with what clients see. */
export function toUnavailable(error: unknown): unknown {
  if (!isUnavailable(error)) return error;
  const problem = codeOf(error) === READ_ONLY ? 'is read-only at the moment' : 'cannot reach its database';
  return new StoreError('unavailable', `The store ${problem}. Try again shortly.`, { cause: error });
}
