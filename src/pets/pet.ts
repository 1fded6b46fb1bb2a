import { StoreError } from '../errors.js';
import { parseInt64, type Int64 } from './int64.js';

/** The values of PetStatus, as the interface document writes them. */
export const PET_STATUSES = ['available', 'pending', 'sold'] as const;
export type PetStatus = (typeof PET_STATUSES)[number];

/** An animal. `status` is absent if none was given. */
export interface Pet {
  readonly id: Int64;
  readonly name: string;
  readonly categoryId: Int64;
  readonly status?: PetStatus | undefined;
  /** Why an animal of an upstream has no status, if the upstream sent one that is not known here. */
  readonly statusError?: StoreError | undefined;
}

/** An animal to add; the store assigns the id. */
export type NewPet = Omit<Pet, 'id' | 'statusError'>;

/** Which animals to list. */
export interface PetQuery {
  /** The most animals to return, 1 to 100. */
  readonly limit: number;
  /** Only animals with this status; all if absent. */
  readonly status?: PetStatus | undefined;
}

export const LIMIT = { minimum: 1, maximum: 100, default: 20 } as const;
export const NAME_LENGTH = { minimum: 1, maximum: 255 } as const;

/** Which animals to list, as the client sent it. */
export interface UntrustedPetQuery {
  readonly limit: number;
  readonly status?: PetStatus | null | undefined;
}

/** @throws StoreError `invalid_request` */
export function parsePetQuery({ limit, status }: UntrustedPetQuery): PetQuery {
  return { limit: parseLimit(limit), status: status ?? undefined };
}

/** @throws StoreError `invalid_request` if `limit` is not a whole number from 1 to 100 */
export function parseLimit(limit: number): number {
  if (Number.isInteger(limit) && limit >= LIMIT.minimum && limit <= LIMIT.maximum) return limit;
  throw new StoreError('invalid_request', `limit must be a whole number from 1 to 100, got ${String(limit)}.`);
}

/** @throws StoreError `invalid_request` with the rule that the name breaks */
export function parseName(name: string): string {
  const reason = whyNotAName(name);
  if (reason === undefined) return name;
  throw new StoreError('invalid_request', `name must be 1 to 255 characters that are not all white space: ${reason}.`);
}

const TOO_LONG = `it has more than ${NAME_LENGTH.maximum}`;

function whyNotAName(name: string): string | undefined {
  if (name.length === 0) return 'it is empty';
  // Each character has one or two UTF-16 units. A longer name is not read: a hundred additions may share one of 1 MB.
  if (name.length > 2 * NAME_LENGTH.maximum) return TOO_LONG;
  if (!name.isWellFormed()) return 'it holds an unpaired surrogate';
  if (name.includes('\0')) return 'it holds a NUL';
  if (/^\p{White_Space}+$/u.test(name)) return 'it is all white space';
  if (name.length <= NAME_LENGTH.maximum) return undefined;
  return Array.from(name).length > NAME_LENGTH.maximum ? TOO_LONG : undefined;
}

/** An animal to add, as the client sent it. */
export interface UntrustedNewPet {
  readonly name: string;
  readonly categoryId: string;
  readonly status?: PetStatus | null | undefined;
}

/** @throws StoreError `invalid_request` for the first field that breaks a rule */
export function parseNewPet({ name, categoryId, status }: UntrustedNewPet): NewPet {
  const checked = { name: parseName(name), categoryId: parseInt64(categoryId, 'categoryId') };
  return status == null ? checked : { ...checked, status };
}

/** Creates the error for an animal that does not exist. */
export function notFound(id: Int64): StoreError {
  return new StoreError('not_found', `There is no animal with id ${id}.`);
}

/** When the lookup by id (`GET /pets/{petId}`, `Query.pet`) will be removed, according to the interface document. */
export const LOOKUP_SUNSET = new Date('2030-12-05T00:00:00Z');

/**
 * Since when the lookup is deprecated. The interface document 1.0.0 states no date, so this is the day on which this
 * store first published the deprecation.
 */
export const LOOKUP_DEPRECATED_SINCE = new Date('2026-11-20T00:00:00Z');
