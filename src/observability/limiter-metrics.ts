import { Counter, Gauge, type Registry } from 'prom-client';

/** What the limits admitted and refused. */
export interface AdmissionMetrics {
  /**
   * Counts an operation or a REST request that was admitted.
   * @param cost - how many requests it was charged
   */
  admitted(plan: string | undefined, cost: number): void;
  refused(plan: string | undefined, reason: string): void;
}

/** The state of the limits that instances share through Redis. */
export interface SharingMetrics {
  /** Reports whether limits are shared now, or counted per instance. */
  setShared(isShared: boolean): void;
  /** Counts one failure of Redis. */
  countFailure(reason: SharingFailure): void;
}

export const SHARING_FAILURES = ['unreachable', 'timeout', 'closed', 'error', 'garbage'] as const;
export type SharingFailure = (typeof SHARING_FAILURES)[number];

export interface LimiterMetrics {
  readonly admissions: AdmissionMetrics;
  /** Starts to report the sharing through Redis. Instances that share nothing do not call it. */
  watchSharing(): SharingMetrics;
}

/**
 * Creates the metrics of the limits.
 * @param plans - the plans; their counters start at zero, so that the first refusal is an increase
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

/** `in_process`: this instance shares with nobody. `per_instance`: it would share through Redis, but Redis is unavailable. */
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
  const registers = [registry];
  const admissions = new Counter({
    name: 'limiter_admissions_total',
    help: 'GraphQL operations and REST requests admitted',
    labelNames: ['plan'],
    registers,
  });
  const requests = new Counter({
    name: 'limiter_admitted_requests_total',
    help: 'Requests that the admitted operations cost',
    labelNames: ['plan'],
    registers,
  });
  const refusals = new Counter({
    name: 'limiter_refusals_total',
    help: 'GraphQL operations and HTTP requests refused by the limits',
    labelNames: ['plan', 'reason'],
    registers,
  });
  for (const plan of [...plans, UNKNOWN]) {
    admissions.inc({ plan }, 0);
    requests.inc({ plan }, 0);
    for (const reason of REFUSALS) refusals.inc({ plan, reason }, 0);
  }
  refusals.inc({ plan: UNKNOWN, reason: 'address' }, 0);
  return {
    admitted(plan = UNKNOWN, cost) {
      admissions.inc({ plan });
      requests.inc({ plan }, cost);
    },
    refused: (plan = UNKNOWN, reason) => refusals.inc({ plan, reason }),
  };
}
