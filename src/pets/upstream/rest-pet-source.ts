import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../errors.js';
import { compareInt64, type Int64 } from '../int64.js';
import type { Pet } from '../pet.js';
import type { Call, PetSource } from '../pet-source.js';
import type { Breaker } from './breaker.js';
import { backoffMs, type RetryBudget } from './retry-budget.js';
import { createSharedRequests, Patience, type SharedRequest } from './shared-requests.js';
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
  const requests = createSharedRequests();

  return {
    async list({ limit, status }, call) {
      const path = `/pets?limit=${limit}${status === undefined ? '' : `&status=${status}`}`;
      const answer = await get(path, call, new Patience(call, timeoutMs));
      if (answer.status !== 200) throw fromAnswer(answer);
      const pets = answer.body === undefined ? undefined : parsePets(answer.body);
      if (!pets) throw notUnderstood('no list of animals');
      return inOrder(pets).slice(0, limit);
    },
    async findMany(ids, call) {
      if (call.isCancelled) call.signal.throwIfAborted();
      const patience = new Patience(call, timeoutMs);
      return Promise.all(ids.map((id) => find(id, call, patience)));
    },
    async add(newPet, call) {
      const answer = await ask(undefined, new Patience(call, timeoutMs), () =>
        start('POST', '/pets', call, formatNewPet(newPet)),
      );
      if (answer.status < 200 || answer.status > 299) throw fromAnswer(answer);
      const pet = answer.body === undefined ? undefined : parsePet(answer.body);
      if (!pet) throw notUnderstood('no animal');
      return pet;
    },
  };

  async function find(id: Int64, call: Call, patience: Patience): Promise<Pet | Error> {
    try {
      const answer = await get(`/pets/${id}`, call, patience);
      if (answer.status !== 200) return fromAnswer(answer);
      const pet = answer.body === undefined ? undefined : parsePet(answer.body);
      return pet?.id === id ? pet : notUnderstood('not the animal asked for');
    } catch (error) {
      return toError(error);
    }
  }

  function get(path: string, call: Call, patience: Patience): Promise<UpstreamAnswer> {
    return ask(`${call.key?.id ?? ''} ${path}`, patience, () => start('GET', path, call));
  }

  async function ask(id: string | undefined, patience: Patience, begin: () => SharedRequest): Promise<UpstreamAnswer> {
    if (breaker.isOpen) throw unavailable();
    try {
      return await requests.ask(id, patience, begin);
    } catch (error) {
      throw fromFailure(error);
    }
  }

  /** Starts a request; a GET is tried again while the budget lasts. */
  function start(
    method: 'GET' | 'POST',
    path: string,
    { key, requestId, startedAt, traceparent }: Call,
    body?: string,
  ): SharedRequest {
    let sent: Sent | undefined;
    let leftAt: number | undefined;
    let lastFailure: Error | undefined;
    const cancelled: { reason?: Error; pause?: AbortController } = {};
    const headers = {
      accept: 'application/json',
      'x-request-id': requestId,
      ...(key && { authorization: key.authorization }),
      ...(traceparent !== undefined && { traceparent }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
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
        cancelled.reason = reason;
        cancelled.pause?.abort(reason);
        sent?.cancel(reason);
      },
    };

    async function attempt(): Promise<UpstreamAnswer> {
      budget.deposit();
      // Whoever asks the same in this turn of the event loop joins.
      await endOfTurn();
      for (let retry = 0; ; retry++) {
        if (cancelled.reason) throw cancelled.reason;
        sent = client.send({ method, path, headers, body, beforeLeaving });
        const outcome = await sent.answer.catch((error: unknown) => error);
        if (!(outcome instanceof Error)) learn(outcome as UpstreamAnswer);
        else if (outcome instanceof UpstreamFailure) {
          lastFailure = outcome;
          breaker.failed();
        }
        const pause = backoffMs(retry);
        if (!isWorthRetrying(outcome) || !isInTime(pause) || breaker.isOpen || !budget.withdraw()) {
          if (outcome instanceof Error) throw outcome;
          return outcome as UpstreamAnswer;
        }
        cancelled.pause = new AbortController();
        await sleep(pause, undefined, { signal: cancelled.pause.signal });
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

    function isInTime(pause: number): boolean {
      return performance.now() + pause < startedAt + timeoutMs;
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

let turn: Promise<void> | undefined;

/** Settles when this turn of the event loop is over; the same promise for all who ask within it. */
function endOfTurn(): Promise<void> {
  return (turn ??= new Promise((resolve) => {
    setImmediate(() => {
      turn = undefined;
      resolve();
    });
  }));
}

/** The interface does not say in which order a store lists; this program does. */
function inOrder(pets: readonly Pet[]): readonly Pet[] {
  const isOrdered = pets.every(({ id }, index) => index === 0 || compareInt64((pets[index - 1] as Pet).id, id) < 0);
  return isOrdered ? pets : [...pets].sort((a, b) => compareInt64(a.id, b.id));
}
