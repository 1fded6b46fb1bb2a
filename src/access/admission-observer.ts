import type { Plan } from './plans.js';

/** Why an operation was not admitted; `address`: too many answers of 401 went to the address of the client. */
export type AdmissionRefusal = 'rate_limited' | 'key_banned' | 'operation_too_large' | 'address';

/** Is told who was let in, and who was not. */
export interface AdmissionObserver {
  /** An operation or a REST request was admitted, of `cost` requests, one at least. */
  admitted(plan: Plan | undefined, cost: number): void;
  refused(plan: Plan | undefined, reason: AdmissionRefusal): void;
}
