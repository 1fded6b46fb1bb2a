import { brotliDecompressSync, inflateRawSync, unzipSync } from 'node:zlib';
import { z } from 'zod';
import { keyRefused } from '../access/refusals.js';
import type { UpstreamAnswerHead } from '../access/session.js';
import { monotonicNow } from '../clock.js';
import { StoreError, type ErrorName } from '../errors.js';
import { JsonNumber, parseExactJson } from '../json/exact-json.js';
import { compareInt64, isInt64, type Int64 } from '../pets/int64.js';
import { isShortName, PET_STATUSES, type NewPet, type Pet, type PetStatus } from '../pets/pet.js';
import { parseRetryAfter } from './limits.js';

export interface UpstreamAnswer extends UpstreamAnswerHead {
  /** Empty if it cannot be read. */
  readonly body: string;
}

/** Reads an animal. @returns undefined if the interface does not allow the body */
export function parsePet(body: string): Pet | undefined {
  return toPet(parse(body));
}

/** Reads a list and sorts it, because the interface defines no order. Undefined as above. */
export function parsePets(body: string): readonly Pet[] | undefined {
  const list = parse(body);
  const pets = Array.isArray(list) ? list.map(toPet) : [undefined];
  return pets.every((pet) => pet !== undefined) ? pets.sort((a, b) => compareInt64(a.id, b.id)) : undefined;
}

/** Writes the category as an exact integer. */
export function formatNewPet({ name, categoryId, status }: NewPet): string {
  const rest = status === undefined ? '' : `,"status":"${status}"`;
  return `{"name":${JSON.stringify(name)},"categoryId":${categoryId}${rest}}`;
}

function parse(body: string): unknown {
  try {
    return parseExactJson(body);
  } catch {
    return undefined;
  }
}

function toPet(value: unknown): Pet | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { id: petId, name, categoryId: petCategoryId, status } = value as Record<string, unknown>;
  const id = toInt64(petId);
  const categoryId = toInt64(petCategoryId);
  if (id === undefined || categoryId === undefined) return undefined;
  // A hundred fields may repeat a name.
  if (typeof name !== 'string' || !isShortName(name)) return undefined;
  const isKnown = status === undefined || PET_STATUSES.includes(status as PetStatus);
  if (isKnown) return { id, name, categoryId, status: status as PetStatus | undefined, statusError: undefined };
  const message = 'The animal store gave the animal a status that is not known here.';
  return { id, name, categoryId, status: undefined, statusError: new StoreError('upstream_error', message) };
}

/** The parser returns a number only for an exact integer in plain decimal. */
function toInt64(value: unknown): Int64 | undefined {
  if (typeof value === 'number') return String(value) as Int64;
  return value instanceof JsonNumber && isInt64(value.text) ? value.text : undefined;
}

export function unavailable(cause?: unknown): StoreError {
  const message = 'The animal store behind this gateway cannot be reached. Try again shortly.';
  return new StoreError('upstream_unavailable', message, { cause });
}

export function timedOut(): StoreError {
  return new StoreError('upstream_timeout', 'The animal store behind this gateway did not answer in time.');
}

/** The interface does not allow a response, which the message does not quote. */
export function notUnderstood(what: string, details: StoreError['details'] = {}): StoreError {
  const message = `The animal store behind this gateway gave an answer that its interface does not allow (${what}).`;
  return new StoreError('upstream_error', message, details);
}

/** @param answer - the refusal of `after`, if there was one; clients get its Error body */
export function noPaging(answer?: UpstreamAnswer): StoreError {
  const body = answer && fromAnswer(answer).details.body;
  const message = 'The animal store behind this gateway has no paging: leave out after.';
  return new StoreError('upstream_error', message, { body, graphqlOnly: !body });
}

/** Characters of an Error body: every field of an operation may repeat it. */
const MAX_ERROR = 2_000;
const ERROR_BODY = z.object({ code: z.string(), message: z.string(), status: z.number().min(100).max(999) });
const NAMES: Readonly<Record<number, ErrorName>> = { 400: 'invalid_request', 404: 'not_found', 422: 'invalid_request' };

/** Converts a response that is not a success to an error, by its HTTP status and with its Error body unchanged. */
export function fromAnswer(answer: UpstreamAnswer): StoreError {
  const { status } = answer;
  const error = ERROR_BODY.safeParse(parse(answer.body)).data;
  const body = answer.body.length > MAX_ERROR ? undefined : error;
  const retryAfter = parseRetryAfter(answer, monotonicNow());
  const details = { body, graphqlOnly: !body, retryAfter };
  if (status === 401) {
    const { code, message, headers } = keyRefused(body?.message);
    return new StoreError(code, message, { ...details, headers });
  }
  if (status === 429) {
    const code = error?.code === 'key_banned' ? 'key_banned' : 'rate_limited';
    const message = body?.message ?? 'The rate limit is exceeded.';
    return new StoreError(code, message, { ...details, retryAfter: Math.max(1, retryAfter ?? 0) });
  }
  if (status < 400) return notUnderstood('an unexpected status');
  if (!error) return notUnderstood('no Error body', { retryAfter: retryAfter ?? (status < 500 ? undefined : 1) });
  const message = body?.message ?? 'The animal store refused this, with a message that is too long to pass on.';
  return new StoreError(NAMES[status] ?? 'upstream_error', message, details);
}

/** A hundred animals with the longest names, with every character escaped, take a third of this. */
export const MAX_BODY_BYTES = 1_048_576;
/** It ignores a byte order mark. */
const UTF8 = new TextDecoder('utf-8', { fatal: true });

/** Decodes a body, which may be encoded although nobody asked for that. Returns '' if it is too large or invalid. */
export function readBody(chunks: readonly Buffer[], encoding = ''): string {
  const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
  try {
    return UTF8.decode(decode(body, encoding.toLowerCase().replace(/\bidentity\b|[\s,]/g, '')));
  } catch {
    return '';
  }
}

function decode(body: Buffer, coding: string): Buffer {
  const limit = { maxOutputLength: MAX_BODY_BYTES };
  if (coding === '') return body;
  if (coding === 'br') return brotliDecompressSync(body, limit);
  // Some servers send `deflate` without the header of zlib, whose first byte ends in an 8.
  if (coding === 'deflate' && ((body[0] ?? 0) & 0x0f) !== 8) return inflateRawSync(body, limit);
  if (/^(?:x-)?gzip$|^deflate$/.test(coding)) return unzipSync(body, limit);
  throw new TypeError(`the encoding ${coding} is unknown`);
}
