import type { ReactNode } from 'react';
import { formatSeconds, secondsUntil, useNow } from './now.js';
import type { Answer, Deprecation } from './server.js';

export interface NoticesProps {
  readonly answer: Answer | undefined;
  readonly hasKey: boolean;
  /** Why the address of this page gave no development keys, if it should have. */
  readonly spentAddress: string | undefined;
  /** Why there was no response; empty if there was one. */
  readonly failure: string;
  /** The command that creates a key. A gateway has none. */
  readonly newKeyCommand: string | undefined;
}

/** Shows what the user should know or do after the last response. */
export function Notices({ answer, failure, hasKey, spentAddress, newKeyCommand }: NoticesProps) {
  return (
    <div className="notices" role="status">
      {failure !== '' && (
        <Notice kind="error" title="There is no response.">
          {failure}
        </Notice>
      )}
      {answer?.refusal ? (
        <Refusal {...answer} refusal={answer.refusal} newKeyCommand={newKeyCommand} />
      ) : (
        !hasKey && !answer && <NoKeyYet spentAddress={spentAddress} newKeyCommand={newKeyCommand} />
      )}
      {answer?.deprecations.map((deprecation) => (
        <Deprecated key={deprecation.coordinate} {...deprecation} />
      ))}
    </div>
  );
}

function NoKeyYet({ spentAddress, newKeyCommand }: Pick<NoticesProps, 'spentAddress' | 'newKeyCommand'>) {
  return (
    <Notice kind="info" title="Running an operation needs an API key.">
      {spentAddress === undefined
        ? 'Open the address that the server printed when it started, or paste a key above.'
        : `${spentAddress} Or paste a key above.`}{' '}
      <NewKey newKeyCommand={newKeyCommand} />
    </Notice>
  );
}

/** How to get a key. */
function NewKey({ newKeyCommand }: Pick<NoticesProps, 'newKeyCommand'>) {
  if (newKeyCommand === undefined) return <>Keys come from the store behind this gateway.</>;
  return (
    <>
      To create one: <code>{newKeyCommand}</code>
    </>
  );
}

type RefusalProps = Answer & Pick<NoticesProps, 'newKeyCommand'> & { readonly refusal: NonNullable<Answer['refusal']> };

function Refusal({ status, refusal, hadKey, at, newKeyCommand }: RefusalProps) {
  const { code, message, retryAfter } = refusal;
  const wait = secondsUntil(at + (retryAfter ?? 0) * 1_000, useNow(retryAfter !== undefined));
  if (status === 401) {
    return (
      <Notice kind="error" title={hadKey ? '401: the key is not valid.' : '401: no key was sent.'}>
        {hadKey ? `${message} Paste another one above.` : 'Paste one above.'} <NewKey newKeyCommand={newKeyCommand} />
      </Notice>
    );
  }
  return (
    <Notice kind="error" title={`${status}: ${code}.`}>
      {message}
      {retryAfter !== undefined && (
        <b className="wait">{wait > 0 ? ` Again in ${formatSeconds(wait)}.` : ' The wait is over.'}</b>
      )}
    </Notice>
  );
}

function Deprecated({ coordinate, reason, sunset }: Deprecation) {
  return (
    <Notice kind="warning" title={`${coordinate} is deprecated.`}>
      {reason} {sunset !== undefined && <>Sunset: {sunset}</>}
    </Notice>
  );
}

interface NoticeProps {
  readonly kind: 'info' | 'warning' | 'error';
  readonly title: string;
  readonly children: ReactNode;
}

function Notice({ kind, title, children }: NoticeProps) {
  return (
    <p className={`notice ${kind}`}>
      <b>{title}</b> {children}
    </p>
  );
}
