import type { ErrorBody } from '../errors.js';
import { JsonNumber, parseExactJson } from '../json/exact-json.js';
import { isInt64, type Int64 } from '../pets/int64.js';
import { PET_STATUSES, type NewPet, type Pet, type PetStatus } from '../pets/pet.js';

/**
 * Reads an animal from a response. Unknown fields are ignored.
 * @returns undefined if the interface does not allow the body
 */
export function parsePet(body: string): Pet | undefined {
  return toPet(parse(body));
}

/** Reads a list of animals; undefined if the interface does not allow the body. */
export function parsePets(body: string): readonly Pet[] | undefined {
  const list = parse(body);
  if (!Array.isArray(list)) return undefined;
  const pets = list.map(toPet);
  return pets.every((pet) => pet !== undefined) ? pets : undefined;
}

/** Reads an Error body; undefined if the body is something else. */
export function parseErrorBody(body: string): ErrorBody | undefined {
  const value = parse(body);
  if (!isRecord(value)) return undefined;
  const { code, message, status } = value;
  if (typeof code !== 'string' || typeof message !== 'string') return undefined;
  return typeof status === 'number' && status >= 100 && status <= 999 ? { code, message, status } : undefined;
}

/** Formats the body of POST /pets, with the category as an exact integer. */
export function formatNewPet({ name, categoryId, status }: NewPet): string {
  const rest = status === undefined ? '' : `,"status":"${status}"`;
  return `{"name":${JSON.stringify(name)},"categoryId":${categoryId}${rest}}`;
}

function parse(body: string): unknown {
  try {
    return parseExactJson(body, 'The answer');
  } catch {
    return undefined;
  }
}

function toPet(value: unknown): Pet | undefined {
  if (!isRecord(value)) return undefined;
  const { id, name, categoryId, status } = value;
  const petId = toInt64(id);
  const petCategoryId = toInt64(categoryId);
  if (petId === undefined || petCategoryId === undefined || typeof name !== 'string') return undefined;
  if (status === undefined) return { id: petId, name, categoryId: petCategoryId };
  return isStatus(status) ? { id: petId, name, categoryId: petCategoryId, status } : undefined;
}

/** The parser returns a number only for an exact integer in plain decimal, and a JsonNumber for all others. */
function toInt64(value: unknown): Int64 | undefined {
  if (typeof value === 'number') return String(value) as Int64;
  return value instanceof JsonNumber && isInt64(value.text) ? value.text : undefined;
}

function isStatus(value: unknown): value is PetStatus {
  return (PET_STATUSES as readonly unknown[]).includes(value);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
