import { ApolloClient, HttpLink, InMemoryCache } from '@apollo/client';

const uri = (import.meta.env.VITE_STORE_URL as string | undefined) ?? 'http://127.0.0.1:4000/graphql';

/** Makes the client of one key. Another key gets another client, and with it an empty cache. */
export function createClient(key: string): ApolloClient {
  return new ApolloClient({
    link: new HttpLink({ uri, headers: { Authorization: `Bearer ${key}` } }),
    cache: new InMemoryCache(),
  });
}
