import { GraphiQL } from 'graphiql';
import { useCallback, useEffect, useRef, useState } from 'react';
import { Budget } from './budget.js';
import { EXAMPLES } from './examples.js';
import { KeyField } from './key-field.js';
import { keyMemory, tabStorage, writeItem, type DevelopmentKeys } from '../key-memory.js';
import { Price } from './price.js';
import { Notices, type Message } from './notices.js';
import { fetchDevelopmentKeys, findRoundedNumber, send, type Answer, type Operation } from './server.js';
import { Tools } from './tools.js';

/** The operation in the page's own address, as a link carries it. */
const ADDRESS = new URLSearchParams(location.search);
const LINKED = ADDRESS.has('query') && {
  query: ADDRESS.get('query') ?? '',
  variables: ADDRESS.get('variables') ?? '',
};
const TABS = [...(LINKED ? [LINKED] : []), ...EXAMPLES];
// Otherwise a reload would open the link again, and discard what the user has changed.
if (LINKED && tabStorage) history.replaceState(null, '', location.pathname + location.hash);
// GraphiQL opens the tab that has the stored operation. Without one, it would add an empty tab after a reload.
if (LINKED || tabStorage?.getItem('graphiql:tabState') === null) {
  writeItem('graphiql:query', TABS[0]?.query ?? '');
  writeItem('graphiql:variables', TABS[0]?.variables ?? '');
}
const NEW_TAB = `# Write an operation here.
# Ctrl-Space lists the fields.
`;
/** Finds the plan of a key. This operation is free. */
const CHECK: Operation = { query: '{ rateLimit { plan } }' };

/** The offline explorer: GraphiQL, a field for the key, and the budget and notices of the last response. */
export function App() {
  const [key, setKey] = useState(keyMemory.read);
  const [plan, setPlan] = useState<string>();
  const [answer, setAnswer] = useState<Answer>();
  const [developmentKeys, setDevelopmentKeys] = useState<DevelopmentKeys>(keyMemory.readDevelopmentKeys);
  const [message, setMessage] = useState<Message>();
  const [runs, setRuns] = useState(0);
  // GraphiQL loads the schema again for each new fetcher. A ref lets the fetcher stay the same when the key changes.
  const keyInUse = useRef(key);

  const explain = useCallback((error: Error): void => setMessage({ kind: 'error', text: error.message }), []);

  const useKey = useCallback(
    (next: string): void => {
      keyInUse.current = next;
      keyMemory.write(next);
      setKey(next);
      setPlan(undefined);
      setAnswer(undefined);
      setMessage(undefined);
      if (next === '') return;
      send(CHECK, next).then(({ result, answer: checked }) => {
        if (keyInUse.current !== next) return;
        setAnswer(checked);
        setPlan((result.data as { rateLimit?: { plan: string | null } } | undefined)?.rateLimit?.plan ?? undefined);
      }, explain);
    },
    [explain],
  );

  useEffect(() => {
    const load = (): unknown =>
      fetchDevelopmentKeys().then((keys) => {
        if (!keys) return;
        keyMemory.writeDevelopmentKeys(keys);
        setDevelopmentKeys(keys);
        if (keys.free !== undefined) useKey(keys.free);
      }, explain);
    useKey(keyInUse.current);
    load();
    // The user may open the address of a new token in this tab.
    addEventListener('hashchange', load);
    return () => removeEventListener('hashchange', load);
  }, [useKey, explain]);

  // On a phone, the response is below the editors.
  useEffect(() => {
    if (runs > 0) document.querySelector('.graphiql-response')?.scrollIntoView();
  }, [runs]);

  const fetcher = useCallback(
    async (operation: Operation, options?: { headers?: Record<string, string> | null }): Promise<object> => {
      if (operation.operationName === 'IntrospectionQuery') {
        // In development, the schema needs no key, and a request with an invalid key would be refused.
        const { result, answer: keyless } = await send(operation, '');
        return keyless.status !== 200 && keyInUse.current ? (await send(operation, keyInUse.current)).result : result;
      }
      setMessage(undefined);
      try {
        const rounded = findRoundedNumber(operation.variables);
        if (rounded !== undefined)
          throw new Error(`The browser has rounded a number in the variables to ${rounded}. Write it in quotes.`);
        const used = keyInUse.current;
        const sent = await send(withCurrentName(operation), used, options?.headers ?? {});
        if (keyInUse.current === used) setAnswer(sent.answer);
        return sent.result;
      } catch (error) {
        // GraphiQL would show a stack trace.
        return { errors: [{ message: (error as Error).message }] };
      } finally {
        setRuns((before) => before + 1);
      }
    },
    [],
  );

  return (
    <>
      <header className="bar">
        <h1>
          <a href="./">Animal store</a>
        </h1>
        <KeyField value={key} plan={plan} developmentKeys={developmentKeys} onChange={useKey} />
        <Budget windows={answer?.windows ?? []} />
      </header>
      <main>
        <p id="editor-keys" className="hint">
          Ctrl-Enter runs the operation. To leave an editor with the keyboard, press Escape, then Tab or Shift-Tab.
        </p>
        <GraphiQL
          fetcher={fetcher}
          defaultTabs={TABS}
          {...LINKED}
          defaultQuery={NEW_TAB}
          defaultEditorToolsVisibility="variables"
          shouldPersistHeaders={false}
          // The history keeps the headers of each operation, and one of them may be a key. Null is no storage.
          storage={tabStorage as Storage}
          schemaDescription
        >
          <GraphiQL.Logo>{null}</GraphiQL.Logo>
          <GraphiQL.Toolbar>
            {() => <Tools apiKey={key} onMessage={(text) => setMessage({ kind: 'info', text })} />}
          </GraphiQL.Toolbar>
          <GraphiQL.Footer>
            <Price apiKey={key} answer={answer} />
          </GraphiQL.Footer>
          <Notices answer={answer} hasKey={key !== ''} message={message} />
        </GraphiQL>
      </main>
    </>
  );
}

/** Drops the name of the previous operation. GraphiQL updates the name a moment after the text of the operation. */
function withCurrentName({ operationName, ...operation }: Operation): Operation {
  const isCurrent = new RegExp(`\\b(?:query|mutation)\\s+${operationName ?? ''}\\b`).test(operation.query);
  return operationName && isCurrent ? { ...operation, operationName } : operation;
}
