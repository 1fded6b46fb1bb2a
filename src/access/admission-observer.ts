import type { Plan } from './plans.js';

/** Why an operation was refused. `address`: the client's address has received too many 401 responses. */
export type AdmissionRefusal = 'rate_limited' | 'key_banned' | 'operation_too_large' | 'address';

export interface AdmissionObserver {
  /**
   * An operation or a REST request was admitted.
   * @param cost - in requests, at least 1
   */
  admitted(plan: Plan | undefined, cost: number): void;
  refused(plan: Plan | undefined, reason: AdmissionRefusal): void;
}
