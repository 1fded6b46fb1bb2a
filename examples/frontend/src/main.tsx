import { ApolloProvider } from '@apollo/client/react';
import { StrictMode, useMemo, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { AddPet } from './add-pet';
import { createClient } from './client';
import { KeyForm } from './key-form';
import { PetList } from './pet-list';
import './style.css';

const KEY = 'animal-store:key';

function App() {
  // The key stays in this tab. An app with users of its own keeps it on its server instead, and asks the store from there.
  const [key, setKey] = useState(() => sessionStorage.getItem(KEY) ?? '');
  const client = useMemo(() => createClient(key), [key]);
  const changeKey = (next: string): void => {
    sessionStorage.setItem(KEY, next);
    setKey(next);
  };
  return (
    <main>
      <h1>Animals</h1>
      <KeyForm value={key} onChange={changeKey} />
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
