import type { Answer } from './server.js';

/** The line below the response: status, time, size and limit headers. Before the first response, what to do. */
export function ResponseLine({ answer }: { readonly answer: Answer | undefined }) {
  if (!answer?.sent)
    return (
      <p className="response-line first">
        Press the button with the triangle, or Ctrl-Enter, to run the operation. The response appears here.
      </p>
    );
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
