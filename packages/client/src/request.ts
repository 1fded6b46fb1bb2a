import type { PetClientOptions } from './client.js';
import { toStoreErrors } from './errors.js';
import { readForeignResponse } from './foreign-response.js';
import { createPetError } from './pet-error.js';

/** A root field to request. All fields of a request are of one kind, and only lookups share a request. */
export interface Field {
  readonly kind: 'pet' | 'pets' | 'addPet';
  /** The values of the field's arguments, by name. */
  readonly variables: Readonly<Record<string, unknown>>;
  /** The `Idempotency-Key` of the request. */
  readonly idempotencyKey?: string | undefined;
}

export interface Reply {
  /** One value or PetError for each field, in order. If the request was refused as a whole, all have the same error. */
  readonly results: readonly unknown[];
  /** Whether a request for fewer fields may succeed. */
  readonly isTooLarge?: boolean;
  readonly headers: Headers;
}

/** Sends one request. It never rejects: a failure to connect is an error of each field. */
export async function sendFields(
  fields: readonly Field[],
  controller: AbortController,
  endpoint: Required<Pick<PetClientOptions, 'fetch' | 'timeoutMs'>> & { url: URL; headers: Record<string, string> },
): Promise<Reply> {
  const { url, headers, timeoutMs, fetch } = endpoint;
  const key = fields[0]?.idempotencyKey;
  let isLate = false as boolean;
  const timer = setTimeout(() => {
    isLate = true;
    controller.abort();
  }, timeoutMs);
  try {
    const response = await fetch(url.href, {
      method: 'POST',
      headers: { ...headers, ...(key && { 'Idempotency-Key': key }) },
      body: toBody(fields),
      signal: controller.signal,
      // No other server gets the key: the client follows no redirects.
      redirect: 'manual',
    });
    return readReply(response, await response.text(), fields);
  } catch (cause) {
    const code = isLate ? 'TIMED_OUT' : 'CONNECTION_FAILED';
    const reason = isLate ? `no complete response within ${timeoutMs} ms` : 'the connection failed';
    const error = createPetError({ code, message: `${url.origin}: ${reason}.` }, cause);
    return { results: fields.map(() => error), headers: new Headers() };
  } finally {
    clearTimeout(timer);
  }
}

const PET = '{id name categoryId status}';
const LIST = `query List($limit:Int!=20,$status:PetStatus){p0:pets(limit:$limit,status:$status)${PET}}`;
const ADD = `mutation Add($input:NewPet!){p0:addPet(input:$input)${PET}}`;

/** Requests of the same number of lookups have the same document, so the server compiles it once. */
function toBody(fields: readonly Field[]): string {
  const { kind, variables } = fields[0] as Field;
  if (kind !== 'pet') return JSON.stringify({ query: kind === 'pets' ? LIST : ADD, variables });
  const types = fields.map((_, index) => `$i${index}:ID!`).join();
  const lookups = fields.map((_, index) => `p${index}:pet(id:$i${index}){...f}`).join(' ');
  const query = `query LookUp(${types}){${lookups}}fragment f on Pet${PET}`;
  const ids = fields.map((field, index) => [`i${index}`, field.variables.id]);
  return JSON.stringify({ query, variables: Object.fromEntries(ids) as unknown });
}

function readReply({ status, headers }: Response, text: string, fields: readonly Field[]): Reply {
  const body = parseJson(text);
  const errors = toStoreErrors(body);
  const { data } = Object(body) as { readonly data?: Readonly<Record<string, unknown>> | null };
  if (!data) {
    const error = errors[0] ?? readForeignResponse(status, headers);
    // The store has a limit for the cost, one for the number of root fields, and one for the size of the body.
    const isTooLarge = ['OPERATION_TOO_LARGE', 'BAD_REQUEST'].includes(error.code);
    const refusal = createPetError(error);
    return { results: fields.map(() => refusal), isTooLarge, headers };
  }
  // An error without a path is about every field.
  const failures = new Map(errors.map((error) => [error.path?.[0], error]));
  const missing = { code: 'UNRECOGNIZED', message: 'The response has neither a value nor an error.' } as const;
  const toResult = (alias: string): unknown =>
    data[alias] ?? createPetError(failures.get(alias) ?? failures.get(undefined) ?? missing);
  return { results: fields.map((_, index) => toResult(`p${index}`)), headers };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
