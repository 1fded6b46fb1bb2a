import type { Instruments } from './prometheus.js';

const SHARING_FAILURES = ['unreachable', 'timeout', 'closed', 'error', 'garbage'] as const;
export type SharingFailure = (typeof SHARING_FAILURES)[number];
/** The state of the limits that instances share through Redis. */
export type SharingMetrics = ReturnType<ReturnType<typeof createLimiterMetrics>['watchSharing']>;

/** `in_process`: no Redis is configured. `per_instance`: Redis is configured, but unavailable. */
const LIMITER_MODES = ['in_process', 'shared', 'per_instance'] as const;

const UNKNOWN = 'unknown';
const REFUSALS = ['rate_limited', 'key_banned', 'operation_too_large'];

/** Creates the metrics of limits: admissions by plan and outcome, and how they are counted. */
export function createLimiterMetrics({ counter, gauge }: Instruments, knownPlans: readonly string[]) {
  let mode: (typeof LIMITER_MODES)[number] = 'in_process';
  gauge('limiter_shared', 'Whether limits are shared through Redis (1) or counted by this instance alone (0)', () =>
    Number(mode === 'shared'),
  );
  gauge(
    'limiter_mode',
    'How limits are counted: 1 for the mode in force',
    LIMITER_MODES.map((one) => [{ mode: one }, () => Number(one === mode)]),
  );
  const plans = [...knownPlans, UNKNOWN].map((plan) => ({ plan }));
  const admissions = counter('limiter_admissions_total', 'GraphQL operations and REST requests admitted', plans);
  const requests = counter('limiter_admitted_requests_total', 'Requests that the admitted operations cost', plans);
  const refusals = counter('limiter_refusals_total', 'GraphQL operations and HTTP requests refused by the limits', [
    ...plans.flatMap(({ plan }) => REFUSALS.map((reason) => ({ plan, reason }))),
    { plan: UNKNOWN, reason: 'address' },
  ]);
  return {
    admissions: {
      /** Counts an operation or a REST request that was admitted, and the requests that it was charged. */
      admitted(plan = UNKNOWN, cost: number): void {
        admissions.inc({ plan });
        requests.inc({ plan }, cost);
      },
      refused(plan = UNKNOWN, reason: string): void {
        if (reason === 'address' || REFUSALS.includes(reason)) refusals.inc({ plan, reason });
      },
    },
    /** Starts to report the sharing through Redis. Called only if Redis is configured. */
    watchSharing() {
      const failures = counter(
        'redis_failures_total',
        'Failures of Redis, attempts to reach it again included',
        SHARING_FAILURES.map((reason) => ({ reason })),
      );
      mode = 'per_instance';
      return {
        /** Reports whether limits are shared now, or counted per instance. */
        setShared(isShared: boolean): void {
          mode = isShared ? 'shared' : 'per_instance';
        },
        countFailure: (reason: SharingFailure): void => failures.inc({ reason }),
      };
    },
  };
}
