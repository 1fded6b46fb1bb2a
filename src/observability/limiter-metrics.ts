import { Counter, Gauge, type Registry } from 'prom-client';
import { Count, Family } from './series.js';

/** Who was let in, and who was not. */
export interface AdmissionMetrics {
  /** An operation or a REST request was admitted, of so many requests. */
  admitted(plan: string | undefined, cost: number): void;
  refused(plan: string | undefined, reason: string): void;
}

/** How sharing through Redis goes. */
export interface SharingMetrics {
  /** Whether limits are shared just now, or go on per instance. */
  setShared(isShared: boolean): void;
  /** Redis failed: it was not reached, not in time, hung up, or answered with an error or with what nobody asked for. */
  countFailure(reason: SharingFailure): void;
}

export const SHARING_FAILURES = ['unreachable', 'timeout', 'closed', 'error', 'garbage'] as const;
export type SharingFailure = (typeof SHARING_FAILURES)[number];

export interface LimiterMetrics {
  readonly admissions: AdmissionMetrics;
  /** Begins to say how sharing through Redis goes; where nothing is shared, there is nothing to say. */
  watchSharing(): SharingMetrics;
}

/**
 * Makes the metrics of the limits.
 * @param plans - the plans that there are: their counters begin at zero, so that the first refusal is an increase
 */
export function createLimiterMetrics(registry: Registry, plans: readonly string[]): LimiterMetrics {
  const setMode = createMode(registry);
  return {
    admissions: createAdmissionMetrics(registry, plans),
    watchSharing() {
      const failures = new Counter({
        name: 'redis_failures_total',
        help: 'Failures of Redis, attempts to reach it again included',
        labelNames: ['reason'],
        registers: [registry],
      });
      for (const reason of SHARING_FAILURES) failures.inc({ reason }, 0);
      setMode('per_instance');
      return {
        setShared: (isShared) => setMode(isShared ? 'shared' : 'per_instance'),
        countFailure: (reason) => failures.inc({ reason }),
      };
    },
  };
}

/** `in_process`: one instance that shares with nobody; `per_instance`: meant to share through Redis, which is away. */
const LIMITER_MODES = ['in_process', 'shared', 'per_instance'] as const;

function createMode(registry: Registry): (current: (typeof LIMITER_MODES)[number]) => void {
  const shared = new Gauge({
    name: 'limiter_shared',
    help: 'Whether limits are shared through Redis (1) or counted by this instance alone (0)',
    registers: [registry],
  });
  const modes = new Gauge({
    name: 'limiter_mode',
    help: 'How limits are counted: 1 for the mode in force',
    labelNames: ['mode'],
    registers: [registry],
  });
  const set = (current: (typeof LIMITER_MODES)[number]): void => {
    shared.set(current === 'shared' ? 1 : 0);
    for (const mode of LIMITER_MODES) modes.set({ mode }, mode === current ? 1 : 0);
  };
  set('in_process');
  return set;
}

const UNKNOWN = 'unknown';
const REFUSALS = ['rate_limited', 'key_banned', 'operation_too_large'];

function createAdmissionMetrics(registry: Registry, plans: readonly string[]): AdmissionMetrics {
  const admissions = new Family((plan: string) => new Count({ plan })).register(
    registry,
    'counter',
    'limiter_admissions_total',
    'GraphQL operations and REST requests admitted',
  );
  const requests = new Family((plan: string) => new Count({ plan })).register(
    registry,
    'counter',
    'limiter_admitted_requests_total',
    'Requests that the admitted operations cost',
  );
  const refusals = new Family((plan: string, reason: string) => new Count({ plan, reason })).register(
    registry,
    'counter',
    'limiter_refusals_total',
    'GraphQL operations and HTTP requests refused by the limits',
  );
  for (const plan of [...plans, UNKNOWN]) {
    admissions.find(plan);
    requests.find(plan);
    for (const reason of REFUSALS) refusals.find(plan, reason);
  }
  refusals.find(UNKNOWN, 'address');
  return {
    admitted(plan = UNKNOWN, cost) {
      admissions.find(plan).add(1);
      requests.find(plan).add(cost);
    },
    refused: (plan = UNKNOWN, reason) => refusals.find(plan, reason).add(1),
  };
}
