import type { ErrorBody } from '../../errors.js';
import { JsonNumber, parseStrictJson } from '../../json/exact-json.js';
import { isInt64, type Int64 } from '../int64.js';
import { PET_STATUSES, type NewPet, type Pet, type PetStatus } from '../pet.js';

/**
 * Reads an animal that another store answered. Unknown fields are ignored.
 * @returns undefined for what the interface does not allow
 */
export function parsePet(body: string): Pet | undefined {
  return toPet(parse(body));
}

/** Reads a list of animals; undefined for what the interface does not allow. */
export function parsePets(body: string): readonly Pet[] | undefined {
  const list = parse(body);
  if (!Array.isArray(list)) return undefined;
  const pets = list.map(toPet);
  return pets.every((pet) => pet !== undefined) ? pets : undefined;
}

/** Reads an Error body; undefined when it is none. */
export function parseErrorBody(body: string): ErrorBody | undefined {
  const value = parse(body);
  if (!isRecord(value)) return undefined;
  const { code, message, status } = value;
  if (typeof code !== 'string' || typeof message !== 'string' || !(status instanceof JsonNumber)) return undefined;
  return /^\d{3}$/.test(status.text) ? { code, message, status: Number(status.text) } : undefined;
}

/** Writes the body of POST /pets, with its identifier as an exact integer. */
export function formatNewPet({ name, categoryId, status }: NewPet): string {
  const rest = status === undefined ? '' : `,"status":"${status}"`;
  return `{"name":${JSON.stringify(name)},"categoryId":${categoryId}${rest}}`;
}

function parse(body: string): unknown {
  try {
    return parseStrictJson(body, 'The answer');
  } catch {
    return undefined;
  }
}

function toPet(value: unknown): Pet | undefined {
  if (!isRecord(value)) return undefined;
  const { id, name, categoryId, status } = value;
  if (!isId(id) || !isId(categoryId) || typeof name !== 'string') return undefined;
  const pet = { id: id.text as Int64, name, categoryId: categoryId.text as Int64 };
  if (status === undefined) return pet;
  return isStatus(status) ? { ...pet, status } : undefined;
}

function isId(value: unknown): value is JsonNumber {
  return value instanceof JsonNumber && isInt64(value.text);
}

function isStatus(value: unknown): value is PetStatus {
  return (PET_STATUSES as readonly unknown[]).includes(value);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
