import { StoreError } from '../errors.js';
import { quote } from '../json/exact-json.js';
import { parseInt64, type Int64 } from './int64.js';

export const PET_STATUSES = ['available', 'pending', 'sold'] as const;
export type PetStatus = (typeof PET_STATUSES)[number];

export interface Pet {
  readonly id: Int64;
  readonly name: string;
  readonly categoryId: Int64;
  readonly status?: PetStatus;
  /** Instead of a status that this version does not know. */
  readonly statusError?: StoreError;
}

export type NewPet = Omit<Pet, 'id' | 'statusError'>;

export interface PetQuery {
  readonly limit: number;
  readonly status?: PetStatus;
  /** Only animals with a greater id. */
  readonly after?: Int64;
}

/** Equal lists have the same key. With its spaces, it never equals the id of a lookup. */
export const keyOf = ({ limit, status, after }: PetQuery): string => `${limit} ${status ?? ''} ${after ?? ''}`;

export const LIMIT = { minimum: 1, maximum: 100, default: 20 } as const;
export const LIMIT_RULE = `must be a whole number from ${LIMIT.minimum} to ${LIMIT.maximum}`;

export function isLimit(count: number): boolean {
  return Number.isInteger(count) && count >= LIMIT.minimum && count <= LIMIT.maximum;
}

export const NAME_LENGTH = { minimum: 1, maximum: 255 } as const;

/** Which animals to list, as the client sent it. */
export interface UntrustedPetQuery {
  readonly limit: number;
  readonly status?: PetStatus | null;
  readonly after?: string | null;
}

/** @throws StoreError `invalid_request` if `limit` or `after` breaks its rule */
export function parsePetQuery({ limit, status, after }: UntrustedPetQuery): PetQuery {
  if (!isLimit(limit)) throw new StoreError('invalid_request', `limit ${LIMIT_RULE}, got ${String(limit)}.`);
  return { limit, status: status ?? undefined, after: after == null ? undefined : parseInt64(after, 'after') };
}

export const NAME_RULE = `must be 1 to ${NAME_LENGTH.maximum} characters, not all white space, without NUL or unpaired surrogates`;

export function isName(text: string): boolean {
  return isShortName(text) && text.isWellFormed() && !text.includes('\0') && /\P{White_Space}/u.test(text);
}

/** A character has one or two UTF-16 units. A longer text is not read: a hundred additions may share one of 1 MB. */
export function isShortName(text: string): boolean {
  const { maximum } = NAME_LENGTH;
  return text.length <= maximum || (text.length <= 2 * maximum && Array.from(text).length <= maximum);
}

/** An animal to add, as the client sent it. */
export interface UntrustedNewPet {
  readonly name: string;
  readonly categoryId: string;
  readonly status?: PetStatus | null;
}

/** @throws StoreError `invalid_request` for the first field that breaks a rule */
export function parseNewPet({ name, categoryId, status }: UntrustedNewPet): NewPet {
  if (!isName(name)) throw new StoreError('invalid_request', `name ${NAME_RULE}, got ${quote(name)}.`);
  const checked = { name, categoryId: parseInt64(categoryId, 'categoryId') };
  return status == null ? checked : { ...checked, status };
}

export function notFound(id: Int64): StoreError {
  return new StoreError('not_found', `There is no animal with id ${id}.`);
}
