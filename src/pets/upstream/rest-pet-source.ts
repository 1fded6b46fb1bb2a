import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../errors.js';
import { formatIdempotencyKey, type IdempotencyKey } from '../idempotency-key.js';
import type { Int64 } from '../int64.js';
import type { Pet } from '../pet.js';
import type { Call, PetSource } from '../pet-source.js';
import type { Breaker } from './breaker.js';
import { backoffMs, type RetryBudget } from './retry-budget.js';
import { createSharedRequests, type SharedRequest } from './shared-requests.js';
import { UpstreamFailure, type Sent, type UpstreamAnswer, type UpstreamClient } from './upstream-client.js';
import { fromAnswer, fromFailure, notUnderstood, unavailable } from './upstream-errors.js';
import { formatNewPet, parseErrorBody, parsePet, parsePets } from './wire.js';

export interface RestPetSourceOptions {
  readonly client: UpstreamClient;
  readonly breaker: Breaker;
  readonly budget: RetryBudget;
  /** Time for everything that one call asks, from its start, in milliseconds. */
  readonly timeoutMs: number;
}

/** Answers of a store that is passing through trouble; a GET is worth another try. */
const RETRIED_STATUSES = new Set([502, 503, 504]);

/** The animals of another store, over its /v1 REST interface, in the name of the caller. */
export function createRestPetSource({ client, breaker, budget, timeoutMs }: RestPetSourceOptions): PetSource {
  const requests = createSharedRequests({ timeoutMs });

  return {
    async list({ limit, status }, call) {
      const answer = await get(`/pets?limit=${limit}${status === undefined ? '' : `&status=${status}`}`, call);
      if (answer.status !== 200) throw fromAnswer(answer);
      const pets = answer.body === undefined ? undefined : parsePets(answer.body);
      if (!pets) throw notUnderstood('no list of animals');
      return inOrder(pets).slice(0, limit);
    },
    async findMany(ids, call) {
      call.signal.throwIfAborted();
      return Promise.all(ids.map((id) => find(id, call).catch(toError)));
    },
    async add(newPet, call, key) {
      const body = formatNewPet(newPet);
      const answer = await ask(undefined, call, () => start('POST', '/pets', call, { body, key }));
      if (answer.status < 200 || answer.status > 299) throw fromAnswer(answer);
      const pet = answer.body === undefined ? undefined : parsePet(answer.body);
      if (!pet) throw notUnderstood('no animal');
      return pet;
    },
  };

  async function find(id: Int64, call: Call): Promise<Pet> {
    const answer = await get(`/pets/${id}`, call);
    if (answer.status !== 200) throw fromAnswer(answer);
    const pet = answer.body === undefined ? undefined : parsePet(answer.body);
    if (pet?.id !== id) throw notUnderstood('not the animal asked for');
    return pet;
  }

  function get(path: string, call: Call): Promise<UpstreamAnswer> {
    return ask(`${call.key?.id ?? ''} ${path}`, call, () => start('GET', path, call));
  }

  async function ask(id: string | undefined, call: Call, begin: () => SharedRequest): Promise<UpstreamAnswer> {
    if (breaker.isOpen) throw unavailable();
    try {
      return await requests.ask(id, call, begin);
    } catch (error) {
      throw fromFailure(error);
    }
  }

  /** Starts a request; a GET is tried again while the budget lasts. */
  function start(
    method: 'GET' | 'POST',
    path: string,
    { key, requestId, startedAt, traceparent }: Call,
    addition?: { readonly body: string; readonly key: IdempotencyKey | undefined },
  ): SharedRequest {
    let sent: Sent | undefined;
    let leftAt: number | undefined;
    let lastFailure: Error | undefined;
    const cancelled = new AbortController();
    const headers = {
      accept: 'application/json',
      'x-request-id': requestId,
      ...(key && { authorization: key.authorization }),
      ...(traceparent !== undefined && { traceparent }),
      ...(addition && { 'content-type': 'application/json' }),
      ...(addition?.key && { 'idempotency-key': formatIdempotencyKey(addition.key) }),
    };

    return {
      answer: attempt(),
      get hasLeft() {
        return leftAt !== undefined;
      },
      get lastFailure() {
        return lastFailure;
      },
      cancel(reason) {
        // A call whose time is over, not a client that went away.
        if (reason instanceof StoreError) breaker.failed();
        cancelled.abort(reason);
        sent?.cancel(reason);
      },
    };

    async function attempt(): Promise<UpstreamAnswer> {
      budget.deposit();
      // Whoever asks the same in this turn of the event loop joins.
      await new Promise(setImmediate);
      for (let retry = 0; ; retry++) {
        cancelled.signal.throwIfAborted();
        sent = client.send({ method, path, headers, body: addition?.body, beforeLeaving });
        const outcome = await sent.answer.catch((error: unknown) => error);
        if (!(outcome instanceof Error)) learn(outcome as UpstreamAnswer);
        else if (outcome instanceof UpstreamFailure) {
          lastFailure = outcome;
          breaker.failed();
        }
        const pause = backoffMs(retry);
        const isInTime = performance.now() + pause < startedAt + timeoutMs;
        if (!isInTime || breaker.isOpen || !isWorthRetrying(outcome) || !budget.withdraw()) {
          if (outcome instanceof Error) throw outcome;
          return outcome as UpstreamAnswer;
        }
        await sleep(pause, undefined, { signal: cancelled.signal });
      }
    }

    function beforeLeaving(): void {
      const refusal = key?.findRefusal();
      if (refusal) throw refusal;
      leftAt = performance.now();
    }

    function learn(answer: UpstreamAnswer): void {
      breaker.succeeded();
      const errorCode =
        answer.status === 429 && answer.body !== undefined ? parseErrorBody(answer.body)?.code : undefined;
      key?.learn({ status: answer.status, header: answer.header, errorCode }, leftAt ?? 0);
    }

    function isWorthRetrying(outcome: unknown): boolean {
      if (outcome instanceof UpstreamFailure)
        return outcome.kind === 'unreachable' && (method === 'GET' || !outcome.hasLeft);
      if (outcome instanceof Error) return false;
      return method === 'GET' && RETRIED_STATUSES.has((outcome as UpstreamAnswer).status);
    }
  }
}

function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** The interface does not say in which order a store lists; this program does. */
function inOrder(pets: readonly Pet[]): readonly Pet[] {
  const isOrdered = pets.every((pet, index) => index === 0 || compare(pets[index - 1] as Pet, pet) < 0);
  return isOrdered ? pets : [...pets].sort(compare);
}

function compare(a: Pet, b: Pet): number {
  const difference = BigInt(a.id) - BigInt(b.id);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}
