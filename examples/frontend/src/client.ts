import { ApolloClient, ApolloLink, HttpLink, InMemoryCache } from '@apollo/client';
import { PersistedQueryLink } from '@apollo/client/link/persisted-queries';
import { tap } from 'rxjs';

const uri = (import.meta.env.VITE_STORE_URL as string | undefined) ?? 'http://127.0.0.1:4000/graphql';

/**
 * Sends the hash that codegen gave a document, instead of the document. Only for a store that has the manifest: another
 * one would refuse the first request.
 */
const sendHash = new PersistedQueryLink({
  generateHash: (document) => Promise.resolve((document as unknown as { __meta__: { hash: string } }).__meta__.hash),
});
const hashLinks = import.meta.env.VITE_TRUSTED_DOCUMENTS === 'true' ? [sendHash] : [];

/** What is left of the key's plan, in the window with the fewest requests left. */
export interface Limit {
  readonly left: number;
  readonly of: number;
  /** `minute` or `day`. Undefined if the store does not name its windows. */
  readonly window: string | undefined;
}

/** Creates the client of one key. Another key gets another client, and with it an empty cache. */
export function createClient(key: string, onLimit: (limit: Limit) => void): ApolloClient {
  // Every response states what is left, also a refusal.
  const readLimit = new ApolloLink((operation, forward) => {
    const read = (): void => {
      const { headers } = (operation.getContext().response ?? {}) as Partial<Response>;
      const left = headers?.get('x-ratelimit-remaining');
      if (left == null) return;
      // Such as: "minute";r=57;t=42, "day";r=997;t=86300
      const windows = [...(headers?.get('ratelimit') ?? '').matchAll(/"(minute|day)";r=(\d+)/g)];
      const window = windows.find(([, , remaining]) => remaining === left)?.[1];
      onLimit({ left: Number(left), of: Number(headers?.get('x-ratelimit-limit')), window });
    };
    return forward(operation).pipe(tap({ next: read, error: read }));
  });
  const http = new HttpLink({ uri, headers: { Authorization: `Bearer ${key}` } });
  return new ApolloClient({ link: ApolloLink.from([...hashLinks, readLimit, http]), cache: new InMemoryCache() });
}
