import type { LimitWindow } from '../../packages/client/src/limits.js';
import { formatSeconds, secondsUntil } from '../seconds.js';
import { useNow } from './now.js';

/** A closed window is full again. It opens with the next request. */
export function leftOf({ limit, remaining, resetAt }: Omit<LimitWindow, 'name'>, now: number): number {
  return resetAt <= now ? limit : remaining;
}

/** Shows how many requests the key has left in each window of the last response. */
export function Budget({ windows }: { readonly windows: readonly LimitWindow[] }) {
  const now = useNow(windows.length > 0);
  return (
    <p className="budget">
      <span className="hint">Requests left: {windows.length === 0 && 'shown after the first response'}</span>
      {windows.map(({ name, limit, remaining, resetAt }) => {
        const left = leftOf({ limit, remaining, resetAt }, now);
        return (
          <span key={name}>
            <b data-low={left * 5 < limit || undefined}>{left.toLocaleString('en')}</b> of {limit.toLocaleString('en')}
            {/* A store may limit requests without naming its windows. */}
            {name !== 'default' && ` a ${name}`}
            {left < limit && <span className="hint">, resets in {formatSeconds(secondsUntil(resetAt, now))}</span>}
          </span>
        );
      })}
    </p>
  );
}
