import { toStoreErrors } from 'animal-store-client/errors';

/** What an error means for the person in front of the page. */
export type Refusal =
  | { readonly kind: 'key'; readonly text: string }
  | { readonly kind: 'input'; readonly text: string }
  | { readonly kind: 'wait'; readonly text: string; readonly seconds: number }
  | { readonly kind: 'failure'; readonly text: string };

/** The pause before the next attempt if the store states none. */
const PAUSE_SECONDS = 5;

/** Decides by the code, which stays the same, not by the message, which may change. */
export function toRefusal(thrown: Error): Refusal {
  const [error] = toStoreErrors(thrown);
  if (!error) return { kind: 'wait', text: 'The store cannot be reached.', seconds: PAUSE_SECONDS };
  switch (error.code) {
    case 'UNAUTHENTICATED':
      return { kind: 'key', text: 'The store does not know this key. Enter another one.' };
    case 'FORBIDDEN':
      return { kind: 'key', text: 'This key may not add animals. Enter another one.' };
    case 'BAD_USER_INPUT':
      return { kind: 'input', text: `The store does not accept this: ${error.message}` };
    case 'RATE_LIMITED':
      return { kind: 'wait', text: 'The limit of your plan is reached.', seconds: error.retryAfter };
    case 'KEY_BANNED':
      return { kind: 'wait', text: 'This key sent too many requests and has to pause.', seconds: error.retryAfter };
    case 'SERVICE_UNAVAILABLE':
    case 'UPSTREAM_ERROR':
      // The store behind a gateway has refused it.
      if (error.error && error.error.status < 500) return { kind: 'failure', text: error.message };
      return { kind: 'wait', text: 'The store is busy.', seconds: error.retryAfter ?? PAUSE_SECONDS };
    case 'UPSTREAM_UNAVAILABLE':
    case 'UPSTREAM_TIMEOUT':
      return { kind: 'wait', text: 'The store is busy.', seconds: PAUSE_SECONDS };
    case 'UNRECOGNIZED':
      return { kind: 'failure', text: error.message };
    default:
      return { kind: 'failure', text: `Something went wrong. Quote ${error.requestId} when you report it.` };
  }
}
