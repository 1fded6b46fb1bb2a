/** A fixed window of a plan. Its first counted request opens it. */
export interface WindowLimit {
  readonly name: 'minute' | 'day';
  /** Length in seconds. */
  readonly seconds: number;
  readonly limit: number;
}

export const PLANS = ['free', 'pro', 'business', 'enterprise'] as const;
export type Plan = (typeof PLANS)[number];

export interface PlanLimits {
  readonly perMinute: number;
  readonly perDay: number;
}

/** The published plans, from the interface document. Each enterprise key has its own limits. */
export const PUBLISHED_LIMITS: Readonly<Record<Exclude<Plan, 'enterprise'>, PlanLimits>> = {
  free: { perMinute: 60, perDay: 1_000 },
  pro: { perMinute: 300, perDay: 10_000 },
  business: { perMinute: 1_000, perDay: 100_000 },
};

/** The windows of a plan, the shorter one first. */
export function toWindows({ perMinute, perDay }: PlanLimits): readonly WindowLimit[] {
  return [
    { name: 'minute', seconds: 60, limit: perMinute },
    { name: 'day', seconds: 86_400, limit: perDay },
  ];
}
