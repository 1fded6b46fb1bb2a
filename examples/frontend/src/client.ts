import { ApolloClient, HttpLink, InMemoryCache } from '@apollo/client';
import { PersistedQueryLink } from '@apollo/client/link/persisted-queries';

const uri = (import.meta.env.VITE_STORE_URL as string | undefined) ?? 'http://127.0.0.1:4000/graphql';

/**
 * Sends the hash that codegen gave a document, instead of the document. A store without the manifest does not know it, and
 * gets documents from then on.
 */
const sendHash = new PersistedQueryLink({
  generateHash: (document) => Promise.resolve((document as unknown as { __meta__: { hash: string } }).__meta__.hash),
  disable: ({ meta }) => meta.persistedQueryNotFound,
});

/** Makes the client of one key. Another key gets another client, and with it an empty cache. */
export function createClient(key: string): ApolloClient {
  return new ApolloClient({
    link: sendHash.concat(new HttpLink({ uri, headers: { Authorization: `Bearer ${key}` } })),
    cache: new InMemoryCache(),
  });
}
