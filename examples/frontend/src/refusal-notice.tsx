import { useEffect, useState } from 'react';
import type { Refusal } from './refusal';

export interface RefusalNoticeProps {
  readonly refusal: Refusal;
  /** Tries again. When the wait is over that happens by itself. Absent: nothing is tried again unasked. */
  readonly onRetry?: () => void;
}

export function RefusalNotice({ refusal, onRetry }: RefusalNoticeProps) {
  return (
    <p className="refusal" role="alert">
      {refusal.text}
      {refusal.kind === 'wait' && <Countdown seconds={refusal.seconds} onOver={onRetry} />}
    </p>
  );
}

function Countdown({ seconds, onOver }: { readonly seconds: number; readonly onOver: (() => void) | undefined }) {
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    if (left === 0) return onOver?.();
    const timer = setTimeout(() => setLeft(left - 1), 1_000);
    return () => clearTimeout(timer);
  }, [left]);
  if (left === 0) return onOver ? ' Trying again…' : ' Try again now.';
  return ` Again in ${left} s.`;
}
