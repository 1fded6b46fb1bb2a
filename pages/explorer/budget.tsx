import type { WindowState } from '../../src/access/ledger.js';
import { formatSeconds, secondsUntil, useNow } from './now.js';

export interface BudgetProps {
  /** The windows of the last response, the shorter first. */
  readonly windows: readonly WindowState[];
  /** True if the windows describe this client's address, because the request had no valid key. */
  readonly isOfAddress: boolean;
}

/** Shows how many requests the key has left in each window. */
export function Budget({ windows, isOfAddress }: BudgetProps) {
  const now = useNow(windows.length > 0);
  return (
    <section className="budget" aria-label="Requests left">
      {windows.length === 0 && <span className="hint">Requests left: shown after the first response</span>}
      {isOfAddress && windows.length > 0 && <span className="hint">Left for tries without a valid key:</span>}
      {windows.map((window) => (
        <Window key={window.name} window={window} now={now} />
      ))}
    </section>
  );
}

function Window({ window: { name, seconds, limit, remaining, resetAt }, now }: { window: WindowState; now: number }) {
  // A closed window is full again. It opens with the next request.
  const isOver = resetAt <= now;
  const left = isOver ? limit : remaining;
  const wait = Math.min(secondsUntil(resetAt, now), seconds ?? Infinity);
  const title = `${left} of ${limit} left${seconds === null ? '' : `, per ${name}`}`;
  return (
    <div className="window" data-low={left * 5 < limit || undefined}>
      <span>
        <b>{left.toLocaleString('en')}</b> of {limit.toLocaleString('en')} a {name}
      </span>
      <meter min={0} max={limit} value={left} aria-label={title} />
      <span className="hint">{left === limit ? 'full' : `resets in ${formatSeconds(wait)}`}</span>
    </div>
  );
}
