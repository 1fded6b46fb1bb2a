import { ApolloProvider } from '@apollo/client/react';
import { StrictMode, useMemo, useState } from 'react';
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
  const [limit, setLimit] = useState<Limit>();
  const client = useMemo(() => createClient(key, setLimit), [key]);
  const changeKey = (next: string): void => {
    sessionStorage.setItem(KEY, next);
    setKey(next);
    setLimit(undefined);
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
      {limit && (
        <p>
          Requests left: {limit.left} of {limit.of}
          {limit.window && ` a ${limit.window}`}
        </p>
      )}
      {key !== '' && (
        <ApolloProvider client={client} key={key}>
          <PetList />
          <AddPet />
        </ApolloProvider>
      )}
    </main>
  );
}

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
