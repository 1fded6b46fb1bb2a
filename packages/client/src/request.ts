import type { Pet, PetClientOptions } from './client.js';
import { toStoreErrors } from './errors.js';
import { readForeignResponse } from './foreign-response.js';
import { toArguments, toPages, type Page } from './pages.js';
import { createPetError, isPetError, type PetError } from './pet-error.js';

/** A root field to request. */
export interface Field {
  readonly kind: 'pet' | 'pets' | 'addPet' | 'price';
  /** The values of the field's arguments by name. */
  readonly variables: Readonly<Record<string, unknown>>;
  /** The `Idempotency-Key` of the request. */
  readonly idempotencyKey?: string | undefined;
  /** Only fields of the same kind and group share a request. Without a group, a field is sent alone. */
  readonly group?: string;
  /** The position of an addition of a group, of which the store derives its idempotency key. */
  readonly position?: number;
  /** The body of the request for a price. */
  readonly body?: string;
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
  getFromLists: boolean,
): Promise<Reply> {
  const { url, headers, timeoutMs, fetch } = endpoint;
  const { kind, idempotencyKey: key } = fields[0] as Field;
  const pages = kind === 'pet' && getFromLists ? toPages(fields.map(idOf)) : undefined;
  let isLate = false as boolean;
  const timer = setTimeout(() => {
    isLate = true;
    controller.abort();
  }, timeoutMs);
  try {
    const response = await fetch(url.href, {
      method: 'POST',
      headers: { ...headers, ...(key && { 'Idempotency-Key': key }) },
      body: toBody(fields, pages),
      signal: controller.signal,
      // No other server gets the key: the client follows no redirects.
      redirect: 'manual',
    });
    return readReply(response, await response.text(), fields, pages);
  } catch (cause) {
    const code = isLate ? 'TIMED_OUT' : 'CONNECTION_FAILED';
    const reason = isLate ? `no complete response within ${timeoutMs} ms` : 'the connection failed';
    const error = createPetError({ code, message: `${url.origin}: ${reason}.` }, cause);
    return { results: fields.map(() => error), headers: new Headers() };
  } finally {
    clearTimeout(timer);
  }
}

/** The names of fields begin with `_`, as those of a document to price hardly do. */
const PET = '{id name categoryId status}';
const LIST = `query List($limit:Int!=20,$status:PetStatus){_0:pets(limit:$limit,status:$status)${PET}}`;
/** A store without paging does not know the argument. */
const NEXT = `query Next($limit:Int!=20,$status:PetStatus,$after:ID){_0:pets(limit:$limit,status:$status,after:$after)${PET}}`;

const idOf = ({ variables }: Field): string => variables.id as string;

/** Requests of the same number of fields have the same document, so the server compiles it once. */
function toBody(fields: readonly Field[], pages: readonly Page[] | undefined): string {
  const { kind, variables, body } = fields[0] as Field;
  if (body) return body;
  if (kind === 'pets') return JSON.stringify({ query: variables.after === undefined ? LIST : NEXT, variables });
  const values: unknown[][] = [];
  const roots: (string | undefined)[] = [];
  if (pages) {
    for (const [index, { after, limit }] of pages.map(toArguments).entries()) {
      values.push([`a${index}`, after, 'ID'], [`n${index}`, limit, 'Int!']);
      roots.push(`_${index}:pets(after:$a${index},limit:$n${index}){...f}`);
    }
  } else {
    const [type, root] = kind === 'pet' ? ['ID!', 'pet(id'] : ['NewPet!', 'addPet(input'];
    for (const [index, { variables: given, position = index }] of fields.entries()) {
      values.push([`i${index}`, given.id ?? given.input, type]);
      roots[position] = `_${index}:${root}:$i${index}){...f}`;
    }
  }
  // An addition that the store refuses, for nothing, takes each position that is sent in another request.
  const selected = Array.from(roots, (root, at) => root ?? `s${at}:addPet(input:{name:"",categoryId:0}){id}`).join(' ');
  const types = values.map(([name, , type]) => `$${name as string}:${type as string}`).join();
  const operation = kind === 'pet' ? 'query LookUp' : 'mutation Add';
  const query = `${operation}(${types}){${selected}}fragment f on Pet${PET}`;
  return JSON.stringify({ query, variables: Object.fromEntries(values) as unknown });
}

function readReply(
  { status, headers }: Response,
  text: string,
  fields: readonly Field[],
  pages: readonly Page[] | undefined,
): Reply {
  const body = parseJson(text);
  const errors = toStoreErrors(body);
  const { data } = Object(body) as { readonly data?: Readonly<Record<string, unknown>> | null };
  if (!data) {
    const error = errors[0] ?? readForeignResponse(status, headers);
    // The store has a limit for the cost, one for the number of root fields (422), and one for the body (413).
    const isTooLarge =
      error.code === 'OPERATION_TOO_LARGE' || (error.code === 'BAD_REQUEST' && [413, 422].includes(status));
    const refusal = createPetError(error);
    return { results: fields.map(() => refusal), isTooLarge, headers };
  }
  // An error without a path is about every field.
  const failures = new Map(errors.map((error) => [error.path?.[0], error]));
  const missing = { code: 'UNRECOGNIZED', message: 'The response has neither a value nor an error.' } as const;
  const toResult = (alias: string): unknown =>
    data[alias] ?? createPetError(failures.get(alias) ?? failures.get(undefined) ?? missing);
  if (!pages) return { results: fields.map((_, index) => toResult(`_${index}`)), headers };
  const lists = pages.map((_, index) => toResult(`_${index}`));
  const requestId = headers.get('x-request-id') ?? '';
  const find = (id: string): unknown => {
    const list = lists[pages.findIndex(({ last }) => BigInt(id) <= last)] as readonly Pet[] | PetError;
    if (isPetError(list)) return list;
    const message = `There is no animal with id ${id}.`;
    const error = { code: 'not_found', message, status: 404 };
    return list.find((pet) => pet.id === id) ?? createPetError({ code: 'NOT_FOUND', message, requestId, error });
  };
  return { results: fields.map((field) => find(idOf(field))), headers };
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
