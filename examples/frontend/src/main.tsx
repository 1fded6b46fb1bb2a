import { ApolloProvider } from '@apollo/client/react';
import { StrictMode, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { AddPet } from './add-pet';
import { createClient, type Limit } from './client';
import { KeyForm } from './key-form';
import { PetList } from './pet-list';
import './style.css';

const KEY = 'animal-store:key';

function App() {
  // The key stays in this tab. An app with users of its own keeps it on its server instead, and asks the store from there.
  const [key, setKey] = useState(() => sessionStorage.getItem(KEY) ?? '');
  const changeKey = (next: string): void => {
    sessionStorage.setItem(KEY, next);
    setKey(next);
  };
  return (
    <main>
      <h1>Animals</h1>
      {key === '' && (
        <p>
          This page lists the animals of a store and adds new ones. The store wants to know who asks: paste one of the
          API keys that <code>npm start</code> printed.
        </p>
      )}
      <KeyForm value={key} onChange={changeKey} />
      {key !== '' && <Animals apiKey={key} key={key} />}
    </main>
  );
}

/** Has the state of one key, so a late response for the previous key shows nothing. */
function Animals({ apiKey }: { readonly apiKey: string }) {
  const [limit, setLimit] = useState<Limit>();
  const [client] = useState(() => createClient(apiKey, setLimit));
  return (
    <ApolloProvider client={client}>
      {limit && (
        <p>
          Requests left: {limit.left} of {limit.of}
          {limit.window && ` a ${limit.window}`}
        </p>
      )}
      <PetList />
      <AddPet />
    </ApolloProvider>
  );
}

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
