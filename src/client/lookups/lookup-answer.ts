import { parseRetryAfter } from '../../access/limit-fields.js';
import { toStoreErrors, type StoreError, type UnrecognizedError } from '../errors.js';
import type { TransportAnswer } from './graphql-transport.js';
import type { Failure } from './pet-error.js';

export type PetStatus = 'AVAILABLE' | 'PENDING' | 'SOLD';

/** An animal of the store. Its identifiers are int64 in canonical decimal, exact. */
export interface LoadedPet {
  readonly id: string;
  readonly name: string;
  readonly categoryId: string;
  /** Null when none was given. */
  readonly status: PetStatus | null;
}

/** What came of one id. */
export type LookupResult = { readonly pet: LoadedPet } | { readonly failure: Failure };

/** What came of an operation: a result for each id, in their order, or a refusal of it as a whole. */
export type LookupAnswer =
  | { readonly kind: 'answered'; readonly results: readonly LookupResult[] }
  | { readonly kind: 'refused'; readonly status: number; readonly failure: Failure };

/** Reads the answer to an operation of `toLookupDocument(count)`. */
export function readLookupAnswer(answer: TransportAnswer, count: number): LookupAnswer {
  const result = parseObject(answer.text);
  const errors = toStoreErrors(result);
  const { data } = result ?? {};
  if (isObject(data)) {
    const failures = new Map(errors.map((error) => [error.path?.[0], toFailure(error)]));
    const results = Array.from({ length: count }, (_, index): LookupResult => {
      const alias = `p${index}`;
      const pet = data[alias];
      return isObject(pet)
        ? { pet: pet as unknown as LoadedPet }
        : {
            failure: failures.get(alias) ?? {
              code: 'UNRECOGNIZED',
              message: 'The answer has neither an animal nor an error.',
            },
          };
    });
    return { kind: 'answered', results };
  }
  const [error] = errors;
  return { kind: 'refused', status: answer.status, failure: error ? toFailure(error) : toForeignFailure(answer) };
}

function toFailure(error: StoreError | UnrecognizedError): Failure {
  if (error.code === 'UNRECOGNIZED') return { code: error.code, message: error.message };
  return error;
}

/** What is to be made of an answer that is no GraphQL: something before the store gave it. */
function toForeignFailure({ status, header }: TransportAnswer): Failure {
  const message = `The endpoint answered with HTTP status ${status} and no GraphQL result.`;
  const retryAfter = parseRetryAfter({ header }, Date.now());
  if (status === 429) return { code: 'RATE_LIMITED', message, retryAfter: retryAfter ?? 1 };
  if (status === 502 || status === 503 || status === 504) return { code: 'SERVICE_UNAVAILABLE', message, retryAfter };
  return { code: 'UNRECOGNIZED', message };
}

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
