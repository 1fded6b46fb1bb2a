import pg from 'pg';
import { StoreError } from '../errors.js';

export const READ_ONLY = '25006';
const STARTING_UP = '57P03';

/**
 * SQLSTATE classes of an unavailable database. A server refuses connections with 28, 3D and 55.
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const UNAVAILABLE_CLASSES = new Set(['08', '25', '28', '3D', '53', '55', '57', '58']);

function isUnavailable(error: unknown): boolean {
  return !(error instanceof pg.DatabaseError) || UNAVAILABLE_CLASSES.has(error.code?.slice(0, 2) ?? '');
}

/** Whether the connection failed or timed out, as opposed to an error that the server reported. */
export function isBroken(error: unknown): boolean {
  return !(error instanceof pg.DatabaseError) && !(error instanceof StoreError);
}

/** Whether the server is no primary, or not yet. */
export function isNotPrimary(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === READ_ONLY || code === STARTING_UP;
}

/**
 * Whether a statement may run again on another host: it reads, or it has certainly not run. A write whose connection
 * broke may have happened.
 */
export function mayRepeat(error: unknown, text: string): boolean {
  const { syscall } = error as NodeJS.ErrnoException;
  return syscall === 'connect' || isNotPrimary(error) || (text.startsWith('SELECT') && isUnavailable(error));
}

export function throwUnavailable(error: unknown): never {
  throw toUnavailable(error);
}

export function toUnavailable(error: unknown): unknown {
  if (error instanceof StoreError || !isUnavailable(error)) return error;
  return new StoreError('unavailable', 'The store cannot reach its database. Try again shortly.', { cause: error });
}
