import { LRUCache } from 'lru-cache';
import { CLIENT_NAME_HEADER } from '../access/api-key.js';
import { formatIdempotencyKey } from '../pets/idempotency-key.js';
import { compareInt64 } from '../pets/int64.js';
import type { Pet, PetQuery } from '../pets/pet.js';
import { MAX_KEPT_TEXT, type Call, type PetSource } from '../pets/pet-source.js';
import type { Result } from './batch.js';
import type { UpstreamClient } from './client.js';
import { formatNewPet, fromAnswer, noPaging, notUnderstood, parsePet, parsePets, type UpstreamAnswer } from './wire.js';

/** Characters of the responses whose lists are kept, and of the texts that the lists keep. */
const KEPT_CHARACTERS = 16_000_000;
const LOOKUP = '/pets/';

/** Creates the source of another store's animals. It uses its /v1 REST interface with the caller's key. */
export function createRestPetSource(ask: UpstreamClient['ask'], userAgent: string): PetSource {
  /** The last list of each key and path, because comparing equal bodies costs less than parsing them. */
  const lists = new LRUCache<string, { readonly body: string; readonly pets: readonly Pet[] }>({
    maxSize: KEPT_CHARACTERS,
    sizeCalculation: ({ body }) => body.length + MAX_KEPT_TEXT,
  });

  return {
    async list({ limit, status, after }, call) {
      let path = `/pets?limit=${limit}`;
      if (status !== undefined) path += `&status=${status}`;
      if (after !== undefined) path += `&after=${after}`;
      const id = `${call.key?.id} ${path}`;
      const read = (answer: UpstreamAnswer): Result => readList(answer, id, { limit, status, after });
      return only(await ask([path], { call, method: 'GET', headers: toHeaders(call), read })) as readonly Pet[];
    },
    async findMany(ids, call) {
      const paths = ids.map((id) => LOOKUP + id);
      const results = await ask(paths, { call, method: 'GET', headers: toHeaders(call), read: readPet });
      return new Map(ids.map((id, index) => [id, results[index] as Pet | Error]));
    },
    async add(newPet, call, key) {
      const headers = toHeaders(call);
      headers.push('content-type', 'application/json');
      if (key) headers.push('idempotency-key', formatIdempotencyKey(key));
      const body = formatNewPet(newPet);
      return only(await ask(['/pets'], { call, method: 'POST', headers, body, read: readPet })) as Pet;
    },
  };

  function readList(answer: UpstreamAnswer, id: string, { limit, status: wanted, after }: PetQuery): Result {
    const { status, body } = answer;
    // The rest of the request is as the interface document allows it, so a 400 is about `after`.
    if (status === 400 && after !== undefined) return noPaging(answer);
    if (status !== 200) return fromAnswer(answer);
    const known = lists.get(id);
    if (known?.body === body) return known.pets;
    const all = parsePets(body);
    if (!all) return notUnderstood('no list of animals');
    // A store that does not know the parameter starts its list with the lowest id.
    if (after !== undefined && all[0] && compareInt64(all[0].id, after) <= 0) return noPaging();
    // Some stores ignore these parameters.
    const pets = all.filter((pet) => wanted === undefined || pet.status === wanted || pet.statusError).slice(0, limit);
    // One that ignores only the status may have more animals of that status than those on this page.
    if (all.length === limit && pets.length < limit) return notUnderstood('animals of another status');
    // The pages of a walk are rarely read again.
    if (after === undefined) lists.set(id, { body, pets });
    return pets;
  }

  function toHeaders({ key, clientName }: Call): string[] {
    const headers = ['accept', 'application/json', 'accept-encoding', 'identity', 'user-agent', userAgent];
    if (key) headers.push('authorization', key.authorization);
    if (clientName !== undefined) headers.push(CLIENT_NAME_HEADER, clientName);
    return headers;
  }
}

/** @throws the error of the only request */
function only([result]: readonly Result[]): Result | undefined {
  if (result instanceof Error) throw result;
  return result;
}

function readPet(answer: UpstreamAnswer, path: string): Result {
  const { status, body } = answer;
  if (status < 200 || status > 299) return fromAnswer(answer);
  const pet = parsePet(body);
  const isRight = pet && (!path.startsWith(LOOKUP) || LOOKUP + pet.id === path);
  return isRight ? pet : notUnderstood('not the animal asked for');
}
