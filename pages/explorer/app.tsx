import { GraphiQL } from 'graphiql';
import { parse } from 'graphql';
import { useCallback, useEffect, useRef, useState } from 'react';
import { Budget } from './budget.js';
import { EXAMPLES } from './examples.js';
import { KeyField, type KeyOrigin } from './key-field.js';
import { keyMemory } from '../key-memory.js';
import { Notices } from './notices.js';
import { REFERENCE } from './reference.js';
import { fetchDevelopmentKeys, findRoundedNumber, send, type Answer, type Operation } from './server.js';

const TABS = EXAMPLES.map(({ query, variables = null }) => ({ query, variables }));
/** Finds the plan of a key. This operation is free. */
const CHECK: Operation = { query: '{ rateLimit { plan } }' };

/** The offline explorer: GraphiQL, a field for the key, and the budget and notices of the last response. */
export function App() {
  const [key, setKey] = useState(keyMemory.read);
  const [origin, setOrigin] = useState<KeyOrigin>(key === '' ? 'none' : 'pasted');
  const [plan, setPlan] = useState<string>();
  const [answer, setAnswer] = useState<Answer>();
  // GraphiQL loads the schema again for each new fetcher. A ref lets the fetcher stay the same when the key changes.
  const keyInUse = useRef(key);

  const useKey = useCallback(async (next: string, from: KeyOrigin) => {
    keyInUse.current = next;
    keyMemory.write(next);
    setKey(next);
    setOrigin(next === '' ? 'none' : from);
    setPlan(undefined);
    setAnswer(undefined);
    if (next === '') return;
    const { result, answer: checked } = await send(CHECK, next);
    if (keyInUse.current !== next) return;
    setAnswer(checked);
    setPlan((result.data as { rateLimit?: { plan?: string } } | undefined)?.rateLimit?.plan);
  }, []);

  useEffect(() => {
    const remembered = keyInUse.current;
    const start = async (): Promise<void> => {
      const development = await fetchDevelopmentKeys();
      if (development?.free !== undefined) return useKey(development.free, 'development');
      if (remembered !== '') await useKey(remembered, 'pasted');
    };
    start().catch(console.error);
  }, [useKey]);

  const fetcher = useCallback(
    async (operation: Operation, options?: { headers?: Record<string, string> | null }): Promise<object> => {
      // The schema needs no key, but a request with an invalid key would be refused.
      if (operation.operationName === 'IntrospectionQuery') return (await send(operation, '')).result;
      const rounded = findRoundedNumber(operation.variables);
      if (rounded !== undefined) {
        throw new Error(`The browser has rounded a number in the variables to ${rounded}. Write it in quotes.`);
      }
      const { result, answer: latest } = await send(
        withCurrentName(operation),
        keyInUse.current,
        options?.headers ?? {},
      );
      setAnswer(latest);
      return result;
    },
    [],
  );

  return (
    <>
      <header className="bar">
        <h1>Animal store</h1>
        <KeyField
          value={key}
          origin={origin}
          plan={plan}
          onChange={(next) => void useKey(next, 'pasted').catch(console.error)}
        />
        <Budget windows={answer?.windows ?? []} isOfAddress={answer?.status === 401} />
      </header>
      <main>
        <GraphiQL
          fetcher={fetcher}
          defaultTabs={TABS}
          defaultEditorToolsVisibility="variables"
          referencePlugin={REFERENCE}
          visiblePlugin={undefined}
          shouldPersistHeaders={false}
          schemaDescription
        >
          <GraphiQL.Logo>{null}</GraphiQL.Logo>
        </GraphiQL>
      </main>
      <Notices answer={answer} hasKey={key !== ''} />
    </>
  );
}

/** Drops the name of the previous operation. GraphiQL updates the name a moment after the text of the operation. */
function withCurrentName({ operationName, ...operation }: Operation): Operation {
  return namesOf(operation.query).includes(operationName ?? undefined) ? { ...operation, operationName } : operation;
}

function namesOf(query: string): readonly (string | undefined)[] {
  try {
    return parse(query).definitions.map((definition) => ('name' in definition ? definition.name?.value : undefined));
  } catch {
    // The server describes the syntax error.
    return [];
  }
}
