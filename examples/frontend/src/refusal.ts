import { CombinedGraphQLErrors } from '@apollo/client';

/** What an error means for whoever sits before the page. */
export type Refusal =
  | { readonly kind: 'key'; readonly text: string }
  | { readonly kind: 'input'; readonly text: string }
  | { readonly kind: 'wait'; readonly text: string; readonly seconds: number }
  | { readonly kind: 'failure'; readonly text: string };

/** The pause before the next try where the store names none. */
const PAUSE_SECONDS = 5;

/** Decides by `extensions.code`, which stays the same, never by the message, which does not. */
export function toRefusal(error: Error): Refusal {
  if (!CombinedGraphQLErrors.is(error)) {
    return { kind: 'wait', text: 'The store cannot be reached.', seconds: PAUSE_SECONDS };
  }
  const [first] = error.errors;
  const { code, retryAfter, requestId } = (first?.extensions ?? {}) as {
    code?: string;
    retryAfter?: number;
    requestId?: string;
  };
  switch (code) {
    case 'UNAUTHENTICATED':
      return { kind: 'key', text: 'The store does not know this key. Enter another one.' };
    case 'BAD_USER_INPUT':
      return { kind: 'input', text: first?.message ?? '' };
    case 'RATE_LIMITED':
      return { kind: 'wait', text: 'The limit of your plan is reached.', seconds: retryAfter ?? PAUSE_SECONDS };
    case 'KEY_BANNED':
      return { kind: 'wait', text: 'This key asked too often and has to pause.', seconds: retryAfter ?? PAUSE_SECONDS };
    case 'SERVICE_UNAVAILABLE':
    case 'UPSTREAM_UNAVAILABLE':
    case 'UPSTREAM_TIMEOUT':
    case 'UPSTREAM_ERROR':
      return { kind: 'wait', text: 'The store is busy.', seconds: retryAfter ?? PAUSE_SECONDS };
    default:
      return { kind: 'failure', text: `Something went wrong. Quote ${requestId ?? 'the time'} when you report it.` };
  }
}
