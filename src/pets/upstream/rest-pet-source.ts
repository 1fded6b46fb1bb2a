import { CLIENT_NAME_HEADER } from '../../access/client-name.js';
import { formatIdempotencyKey } from '../idempotency-key.js';
import { compareInt64, type Int64 } from '../int64.js';
import type { Pet } from '../pet.js';
import type { Call, PetSource } from '../pet-source.js';
import { createSharedRequests, Patience, type Outcome } from './shared-requests.js';
import { fromAnswer, notUnderstood, unavailable } from './upstream-errors.js';
import { UpstreamRequest, type UpstreamQuestion, type UpstreamRequestParts } from './upstream-request.js';
import { formatNewPet, parsePet, parsePets } from './wire.js';

/** The animals of another store, over its /v1 REST interface, in the name of the caller. */
export function createRestPetSource(parts: UpstreamRequestParts): PetSource {
  const { breaker, timeoutMs } = parts;
  const requests = createSharedRequests<UpstreamQuestion>(
    (question, call, listener) => new UpstreamRequest(parts, question, call, listener),
  );

  return {
    async list({ limit, status }, call) {
      const path = `/pets?limit=${limit}${status === undefined ? '' : `&status=${status}`}`;
      const answer = await get(path, new Patience(call, timeoutMs), toHeaders(call));
      if (answer instanceof Error) throw answer;
      if (answer.status !== 200) throw fromAnswer(answer);
      const pets = answer.body === undefined ? undefined : parsePets(answer.body);
      if (!pets) throw notUnderstood('no list of animals');
      return inOrder(pets).slice(0, limit);
    },
    async findMany(ids, call) {
      if (call.isCancelled) call.signal.throwIfAborted();
      const patience = new Patience(call, timeoutMs);
      const headers = toHeaders(call);
      return Promise.all(ids.map(async (id) => toPetOrError(await get(`/pets/${id}`, patience, headers), id)));
    },
    async add(newPet, call, key) {
      const question = {
        method: 'POST',
        path: '/pets',
        headers: {
          ...toHeaders(call),
          'content-type': 'application/json',
          ...(key && { 'idempotency-key': formatIdempotencyKey(key) }),
        },
        body: formatNewPet(newPet),
      } as const;
      const answer = await ask(undefined, new Patience(call, timeoutMs), question);
      if (answer instanceof Error) throw answer;
      if (answer.status < 200 || answer.status > 299) throw fromAnswer(answer);
      const pet = answer.body === undefined ? undefined : parsePet(answer.body);
      if (!pet) throw notUnderstood('no animal');
      return pet;
    },
  };

  function get(path: string, patience: Patience, headers: UpstreamQuestion['headers']): Promise<Outcome> {
    return ask(`${patience.call.key?.id ?? ''} ${path}`, patience, { method: 'GET', path, headers });
  }

  function ask(...question: Parameters<typeof requests.ask>): Promise<Outcome> {
    return breaker.isOpen ? Promise.resolve(unavailable()) : requests.ask(...question);
  }
}

function toHeaders({ key, requestId, span, traceContext, clientName }: Call): Readonly<Record<string, string>> {
  return {
    accept: 'application/json',
    'x-request-id': requestId,
    ...(key && { authorization: key.authorization }),
    // A span continues the trace in its own name.
    ...(span ? undefined : traceContext),
    ...(clientName !== undefined && { [CLIENT_NAME_HEADER]: clientName }),
  };
}

function toPetOrError(answer: Outcome, id: Int64): Pet | Error {
  if (answer instanceof Error) return answer;
  if (answer.status !== 200) return fromAnswer(answer);
  const pet = answer.body === undefined ? undefined : parsePet(answer.body);
  return pet?.id === id ? pet : notUnderstood('not the animal asked for');
}

/** The interface does not say in which order a store lists; this program does. */
function inOrder(pets: readonly Pet[]): readonly Pet[] {
  const isOrdered = pets.every(({ id }, index) => index === 0 || compareInt64((pets[index - 1] as Pet).id, id) < 0);
  return isOrdered ? pets : [...pets].sort((a, b) => compareInt64(a.id, b.id));
}
