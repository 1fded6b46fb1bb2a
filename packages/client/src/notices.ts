import { SAME_WINDOW_MS, type LimitWindow } from './limits.js';

/** How much of a window is used: at least 80 or 95 percent. */
export interface LimitNotice {
  readonly percent: 80 | 95;
  readonly window: LimitWindow;
}

/** Creates the function that takes the windows after each response, and gives notice of each level once per window. */
export function createNotices(onNotice: (notice: LimitNotice) => void): (windows: readonly LimitWindow[]) => void {
  const told = new Map<string, { readonly resetAt: number; readonly percent: number }>();
  return (windows) => {
    for (const window of windows) {
      const { name, limit, remaining, resetAt } = window;
      const used = (limit - remaining) / limit;
      const percent = used >= 0.95 ? 95 : used >= 0.8 ? 80 : 0;
      const before = told.get(name) ?? { resetAt: 0, percent: 0 };
      // Responses may arrive in any order.
      if (resetAt < before.resetAt - SAME_WINDOW_MS) continue;
      if (percent <= before.percent && resetAt <= before.resetAt + SAME_WINDOW_MS) continue;
      told.set(name, { resetAt, percent });
      // What it throws must not keep the callers from their results.
      if (percent !== 0) queueMicrotask(() => onNotice({ percent, window }));
    }
  };
}
