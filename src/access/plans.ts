/** Its first counted request opens it. */
export interface WindowLimit {
  readonly name: 'minute' | 'day';
  readonly seconds: number;
  readonly limit: number;
}

export const PLANS = ['free', 'pro', 'business', 'enterprise'] as const;
export type Plan = (typeof PLANS)[number];

export interface PlanLimits {
  readonly perMinute: number;
  readonly perDay: number;
}

/** From the interface document. Each enterprise key has its own limits. */
export const PUBLISHED_LIMITS = {
  free: { perMinute: 60, perDay: 1_000 },
  pro: { perMinute: 300, perDay: 10_000 },
  business: { perMinute: 1_000, perDay: 100_000 },
} as const;

export function toWindows({ perMinute, perDay }: PlanLimits): readonly WindowLimit[] {
  return [
    { name: 'minute', seconds: 60, limit: perMinute },
    { name: 'day', seconds: 86_400, limit: perDay },
  ];
}
