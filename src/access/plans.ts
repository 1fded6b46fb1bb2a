/** A window of a plan: fixed, opened by the first counted request. */
export interface WindowLimit {
  readonly name: 'minute' | 'day';
  /** Length in seconds. */
  readonly seconds: number;
  /** Requests it holds. */
  readonly limit: number;
}

export const PLANS = ['free', 'pro', 'business', 'enterprise'] as const;
export type Plan = (typeof PLANS)[number];

/** Requests a minute and a day. */
export interface PlanLimits {
  readonly perMinute: number;
  readonly perDay: number;
}

/** The published plans, from the interface document; enterprise keys bring their own numbers. */
export const PUBLISHED_LIMITS: Readonly<Record<Exclude<Plan, 'enterprise'>, PlanLimits>> = {
  free: { perMinute: 60, perDay: 1_000 },
  pro: { perMinute: 300, perDay: 10_000 },
  business: { perMinute: 1_000, perDay: 100_000 },
};

/** The windows of a plan, the shorter first. */
export function toWindows(limits: PlanLimits): readonly WindowLimit[] {
  return PUBLISHED_WINDOWS.get(limits) ?? makeWindows(limits);
}

function makeWindows({ perMinute, perDay }: PlanLimits): readonly WindowLimit[] {
  return [
    { name: 'minute', seconds: 60, limit: perMinute },
    { name: 'day', seconds: 86_400, limit: perDay },
  ];
}

/** Those of the published plans, once for all the keys that have them. */
const PUBLISHED_WINDOWS = new Map<PlanLimits, readonly WindowLimit[]>(
  Object.values(PUBLISHED_LIMITS).map((limits) => [limits, makeWindows(limits)]),
);
