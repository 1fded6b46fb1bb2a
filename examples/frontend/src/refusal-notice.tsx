import { useEffect, useState } from 'react';
import type { Refusal } from './refusal';

export interface RefusalNoticeProps {
  readonly refusal: Refusal;
  /** Sends the request again, when the wait is over. Without it, nothing is sent again unless the user does so. */
  readonly onRetry?: () => void;
}

export function RefusalNotice({ refusal, onRetry }: RefusalNoticeProps) {
  return (
    <div className="refusal">
      <p role="alert">{refusal.text}</p>
      {refusal.kind === 'wait' && <Countdown seconds={refusal.seconds} onOver={onRetry} />}
    </div>
  );
}

/** A timer is not read aloud when it changes, unlike the text of an alert. */
function Countdown({ seconds, onOver }: { readonly seconds: number; readonly onOver: (() => void) | undefined }) {
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    if (left === 0) return onOver?.();
    const timer = setTimeout(() => setLeft(left - 1), 1_000);
    return () => clearTimeout(timer);
  }, [left]);
  const over = onOver ? 'Trying again…' : 'Try again now.';
  return <p role="timer">{left === 0 ? over : `Again in ${left} s.`}</p>;
}
