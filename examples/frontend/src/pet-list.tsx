import { useQuery } from '@apollo/client/react';
import { useState } from 'react';
import { graphql } from './gql';
import type { PetStatus } from './gql/graphql';
import { toRefusal } from './refusal';
import { RefusalNotice } from './refusal-notice';

const LIST_PETS = graphql(`
  query ListPets($status: PetStatus) {
    pets(status: $status, limit: 100) {
      id
      name
      categoryId
      status
    }
  }
`);

/** What people read for each status. */
const STATUS_LABELS: Readonly<Record<PetStatus, string>> = {
  AVAILABLE: 'available',
  PENDING: 'pending',
  SOLD: 'sold',
};

export function StatusOptions() {
  return Object.entries(STATUS_LABELS).map(([status, label]) => (
    <option key={status} value={status}>
      {label}
    </option>
  ));
}

export function PetList() {
  const [status, setStatus] = useState<PetStatus>();
  const { data, error, loading, refetch } = useQuery(LIST_PETS, {
    variables: { status },
    // So that `loading` is true while it is asked again.
    notifyOnNetworkStatusChange: true,
  });
  // The error comes back as the state of the query.
  const retry = (): void => void refetch().catch(() => undefined);
  return (
    <section aria-busy={loading}>
      <label className="row">
        Show
        <select value={status ?? ''} onChange={({ target }) => setStatus((target.value || undefined) as PetStatus)}>
          <option value="">all animals</option>
          <StatusOptions />
        </select>
      </label>
      {error && !loading && <RefusalNotice refusal={toRefusal(error)} onRetry={retry} />}
      {loading && !data && <p>Loading…</p>}
      {data?.pets?.length === 0 && <p>There are no such animals.</p>}
      <ul>
        {data?.pets?.map(({ id, name, categoryId, status: has }) => (
          <li key={id}>
            <b>{name}</b> <span>category {categoryId}</span> <em>{has ? STATUS_LABELS[has] : 'no status'}</em>
          </li>
        ))}
      </ul>
    </section>
  );
}
