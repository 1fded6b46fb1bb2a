import { CLIENT_NAME_HEADER } from '../../access/client-name.js';
import { toTraceHeaders } from '../../observability/tracing.js';
import { formatIdempotencyKey } from '../idempotency-key.js';
import type { Int64 } from '../int64.js';
import type { Pet } from '../pet.js';
import { CallCancelled, type Call, type PetSource } from '../pet-source.js';
import { createListReader } from './list-reader.js';
import { createSharedRequests, Patience, type Outcome, type Receiver } from './shared-requests.js';
import { fromAnswer, notUnderstood, unavailable } from './upstream-errors.js';
import { UpstreamRequest, type UpstreamRequestParts, type UpstreamTemplate } from './upstream-request.js';
import { formatNewPet, parsePet } from './wire.js';

/** The animals of another store, over its /v1 REST interface, in the name of the caller. */
export function createRestPetSource(parts: UpstreamRequestParts): PetSource {
  const { breaker, timeoutMs } = parts;
  const readList = createListReader();
  const requests = createSharedRequests<UpstreamTemplate>(
    (path, template, call, listener) => new UpstreamRequest(parts, path, template, call, listener),
  );

  return {
    async list({ limit, status }, call) {
      const path = `/pets?limit=${limit}${status === undefined ? '' : `&status=${status}`}`;
      const answer = await askOne(path, toGet(call), call);
      if (answer instanceof Error) throw answer;
      if (answer.status !== 200) throw fromAnswer(answer);
      const pets = answer.body === undefined ? undefined : readList(path, answer.body);
      if (!pets) throw notUnderstood('no list of animals');
      return pets.slice(0, limit);
    },
    findMany(ids, call) {
      if (call.isCancelled) return Promise.reject(new CallCancelled());
      const patience = new Patience(call, timeoutMs);
      const template = toGet(call);
      return new Promise((resolve) => {
        const lookups = new Lookups(ids, resolve);
        ids.forEach((id, place) => {
          ask(`/pets/${id}`, template, patience, lookups, place);
        });
      });
    },
    async add(newPet, call, key) {
      const template = {
        method: 'POST',
        headers: {
          ...toHeaders(call),
          'content-type': 'application/json',
          ...(key && { 'idempotency-key': formatIdempotencyKey(key) }),
        },
        body: formatNewPet(newPet),
        isShared: false,
      } as const;
      const answer = await askOne('/pets', template, call);
      if (answer instanceof Error) throw answer;
      if (answer.status < 200 || answer.status > 299) throw fromAnswer(answer);
      const pet = answer.body === undefined ? undefined : parsePet(answer.body);
      if (!pet) throw notUnderstood('no animal');
      return pet;
    },
  };

  function askOne(path: string, template: UpstreamTemplate, call: Call): Promise<Outcome> {
    return new Promise((resolve) => {
      ask(path, template, new Patience(call, timeoutMs), { receive: resolve }, 0);
    });
  }

  function ask(path: string, template: UpstreamTemplate, patience: Patience, receiver: Receiver, place: number): void {
    if (breaker.isOpen) receiver.receive(unavailable(), place);
    else requests.ask(path, template, patience, receiver, place);
  }
}

/** Collects the answers to the lookups of a call: hundreds of them are under way at times, and a promise for each would be much. */
class Lookups implements Receiver {
  readonly #slots: (Pet | Error)[];
  #missing: number;

  constructor(
    private readonly ids: readonly Int64[],
    private readonly resolve: (slots: readonly (Pet | Error)[]) => void,
  ) {
    this.#missing = ids.length;
    this.#slots = new Array<Pet | Error>(ids.length);
    if (ids.length === 0) resolve([]);
  }

  receive(outcome: Outcome, place: number): void {
    this.#slots[place] = toPetOrError(outcome, this.ids[place] as Int64);
    this.#missing -= 1;
    if (this.#missing === 0) this.resolve(this.#slots);
  }
}

function toGet(call: Call): UpstreamTemplate {
  return { method: 'GET', headers: toHeaders(call), isShared: true };
}

function toHeaders({ key, requestId, span, clientName }: Call): Readonly<Record<string, string>> {
  return {
    accept: 'application/json',
    'x-request-id': requestId,
    ...(key && { authorization: key.authorization }),
    // If the request is recorded, each attempt has a span of its own and replaces these.
    ...toTraceHeaders(span),
    ...(clientName !== undefined && { [CLIENT_NAME_HEADER]: clientName }),
  };
}

function toPetOrError(answer: Outcome, id: Int64): Pet | Error {
  if (answer instanceof Error) return answer;
  if (answer.status !== 200) return fromAnswer(answer);
  const pet = answer.body === undefined ? undefined : parsePet(answer.body);
  return pet?.id === id ? pet : notUnderstood('not the animal asked for');
}
