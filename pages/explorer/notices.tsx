import { useEditorContext, useExecutionContext } from '@graphiql/react';
import type { ReactNode } from 'react';
import { formatSeconds, secondsUntil } from '../seconds.js';
import { useNow } from './now.js';
import type { Answer } from './server.js';

/** A sentence for the user. */
export interface Message {
  readonly kind: 'info' | 'error';
  readonly text: string;
}

export interface NoticesProps {
  readonly answer: Answer | undefined;
  readonly hasKey: boolean;
  readonly message: Message | undefined;
}

/** Shows what the user should know or do after the last response. */
export function Notices({ answer, hasKey, message }: NoticesProps) {
  return (
    <div className="notices" role="status">
      {message && <Notice kind={message.kind} title={message.text} />}
      {answer?.refusal && <Refusal {...answer} {...answer.refusal} />}
      {!hasKey && !answer && (
        <Notice kind="info" title="Running an operation needs an API key.">
          Open the address that the server printed when it started, or paste a key above. {NEW_KEY}
        </Notice>
      )}
      {answer?.deprecations.map(({ coordinate, reason, sunset }) => (
        <Notice key={coordinate} kind="warning" title={`${coordinate} is deprecated.`}>
          {reason} {sunset !== undefined && <>Sunset: {sunset}</>}
        </Notice>
      ))}
    </div>
  );
}

const NEW_KEY = (
  <>
    <a href="./#hint">The front page</a> says where keys come from.
  </>
);

type RefusalProps = Answer & NonNullable<Answer['refusal']>;

function Refusal({ at, query, status, code, message, retryAfter }: RefusalProps) {
  const execution = useExecutionContext({ nonNull: true });
  const { queryEditor } = useEditorContext({ nonNull: true });
  const runAgain = (): void => {
    // This button disappears with the next answer, and would take the focus with it.
    document.querySelector<HTMLElement>('.graphiql-execute-button')?.focus();
    execution.run();
  };
  const wait = secondsUntil(at + (retryAfter ?? 0) * 1_000, useNow(retryAfter !== undefined));
  // The button runs the operation of the tab that is open.
  const mayRunAgain = queryEditor?.getValue() === query;
  return (
    <Notice kind="error" title={`${status}${code && ': '}${code}.`}>
      {message} {status === 401 && <>Paste a key above. {NEW_KEY}</>}
      {retryAfter !== undefined &&
        (wait > 0 ? (
          <b role="timer">Again in {formatSeconds(wait)}.</b>
        ) : (
          mayRunAgain && <button onClick={runAgain}>Run again</button>
        ))}
    </Notice>
  );
}

interface NoticeProps {
  readonly kind: Message['kind'] | 'warning';
  readonly title: string;
  readonly children?: ReactNode;
}

function Notice({ kind, title, children }: NoticeProps) {
  return (
    <p className={`notice ${kind}`}>
      <b>{title}</b> {children}
    </p>
  );
}
