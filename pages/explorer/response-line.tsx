import { useEditorContext } from '@graphiql/react';
import { useEffect, useState } from 'react';
import type { Answer } from './server.js';

/** The line below the response of a tab: status, time, size and limit headers. Before the first one, what to do. */
export function ResponseLine({ answer }: { readonly answer: Answer | undefined }) {
  const { tabs, activeTabIndex } = useEditorContext({ nonNull: true });
  const tab = tabs[activeTabIndex];
  const [shown, setShown] = useState<{ readonly answer: Answer | undefined; readonly tab: string | undefined }>();
  useEffect(() => setShown((before) => (before?.answer === answer ? before : { answer, tab: tab?.id })), [answer, tab]);
  if (!tab?.response)
    return (
      <p className="response-line first">
        Press the button with the triangle, or Ctrl-Enter, to run the operation. The response appears here.
      </p>
    );
  if (!answer?.sent || shown?.tab !== tab.id) return null;
  const { status, sent, limitHeaders } = answer;
  return (
    <div className="response-line">
      <b data-failed={status >= 400 || undefined}>{status}</b> <span>{Math.round(sent.ms)} ms</span>{' '}
      <span>{sent.bytes.toLocaleString('en')} bytes</span>
      {limitHeaders.length > 0 && (
        <details>
          <summary>Limit headers</summary>
          <dl>
            {limitHeaders.map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </div>
  );
}
