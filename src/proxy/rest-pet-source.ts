import { LRUCache } from 'lru-cache';
import { CLIENT_NAME_HEADER } from '../access/api-key.js';
import { formatIdempotencyKey } from '../pets/idempotency-key.js';
import type { Pet } from '../pets/pet.js';
import { CallCancelled, type Call, type PetSource } from '../pets/pet-source.js';
import type { UpstreamAnswer } from './exchange.js';
import { createUpstreamRequests, type Result, type UpstreamRequestsOptions } from './requests.js';
import { formatNewPet, fromAnswer, notUnderstood, parsePet, parsePets } from './wire.js';

/** The last list that the upstream sent to a key. */
interface KnownList {
  /** Its strong entity tag, if it has one. */
  readonly etag: string | undefined;
  readonly body: string;
  readonly pets: readonly Pet[];
}

/** Characters of responses whose lists are kept. */
const KNOWN_CHARACTERS = 16_000_000;

/** Creates the source of another store's animals. It uses the store's /v1 REST interface with the caller's key. */
export function createRestPetSource(options: UpstreamRequestsOptions): PetSource {
  const ask = createUpstreamRequests(options);
  /** By key and path: whatever an upstream's tags mean, no key gets what another was sent. */
  const knownLists = new LRUCache<string, KnownList>({
    maxSize: KNOWN_CHARACTERS,
    sizeCalculation: ({ body }) => body.length,
  });

  return {
    async list({ limit, status }, call) {
      const path = `/pets?limit=${limit}${status === undefined ? '' : `&status=${status}`}`;
      const id = `${call.key?.id ?? ''} ${path}`;
      const known = knownLists.get(id);
      const headers = { ...toHeaders(call), ...(known?.etag && { 'if-none-match': known.etag }) };
      const read = (answer: UpstreamAnswer): Result => readList(answer, id, known);
      const pets = only(await ask([path], { call, method: 'GET', headers, read }));
      return pets.length > limit ? pets.slice(0, limit) : pets;
    },
    async findMany(ids, call) {
      if (call.isCancelled) throw new CallCancelled();
      const paths = ids.map((id) => LOOKUP + id);
      const results = await ask(paths, { call, method: 'GET', headers: toHeaders(call), read: readLookup });
      return results.map((result) => (result instanceof Error ? result : result[0]));
    },
    async add(newPet, call, key) {
      const headers = {
        ...toHeaders(call),
        'content-type': 'application/json',
        ...(key && { 'idempotency-key': formatIdempotencyKey(key) }),
      };
      const body = formatNewPet(newPet);
      const [pet] = only(await ask(['/pets'], { call, method: 'POST', headers, body, read: readAdded }));
      return pet as Pet;
    },
  };

  function readList(answer: UpstreamAnswer, id: string, known: KnownList | undefined): Result {
    const { status, body, header } = answer;
    if (status === 304 && known?.etag) return known.pets;
    if (status !== 200) return fromAnswer(answer);
    // Most lists are equal to the last one. Comparing them costs less than parsing them again.
    const isKnown = known !== undefined && body === known.body;
    const pets = isKnown ? known.pets : parsePets(body);
    if (body === undefined || !pets) return notUnderstood('no list of animals');
    // Only a strong tag stands for every byte: https://www.rfc-editor.org/rfc/rfc9110#section-8.8.1
    const tag = header('etag');
    const etag = tag?.startsWith('"') ? tag : undefined;
    // A text that replaces its equal would be garbage of V8's old generation, which is expensive to collect.
    if (!isKnown || etag !== known.etag) knownLists.set(id, { etag, body, pets });
    return pets;
  }
}

/** @throws the error of the only request */
function only([result]: readonly Result[]): readonly Pet[] {
  if (result instanceof Error) throw result;
  return result as readonly Pet[];
}

const LOOKUP = '/pets/';

function readLookup(answer: UpstreamAnswer, path: string): Result {
  const { status, body } = answer;
  if (status !== 200) return fromAnswer(answer);
  const pet = parsePet(body);
  return pet && LOOKUP + pet.id === path ? [pet] : notUnderstood('not the animal asked for');
}

function readAdded(answer: UpstreamAnswer): Result {
  const { status, body } = answer;
  if (status < 200 || status > 299) return fromAnswer(answer);
  const pet = parsePet(body);
  return pet ? [pet] : notUnderstood('no animal');
}

function toHeaders({ key, clientName }: Call): Readonly<Record<string, string>> {
  return {
    accept: 'application/json',
    'accept-encoding': 'identity',
    ...(key && { authorization: key.authorization }),
    ...(clientName !== undefined && { [CLIENT_NAME_HEADER]: clientName }),
  };
}
