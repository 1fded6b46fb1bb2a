import { GraphiQL } from 'graphiql';
import { parse } from 'graphql';
import { useCallback, useEffect, useRef, useState } from 'react';
import { Budget } from './budget.js';
import { BUILDER } from './builder.js';
import { EXAMPLES } from './examples.js';
import { KeyField } from './key-field.js';
import { keyMemory, type DevelopmentKeys } from '../key-memory.js';
import { Notices } from './notices.js';
import { REFERENCE } from './reference.js';
import { ResponseLine } from './response-line.js';
import {
  fetchDevelopmentKeys,
  fetchNewKeyCommand,
  findRoundedNumber,
  send,
  SendError,
  type Answer,
  type Operation,
} from './server.js';
import { cleanHistory, historyWithoutHeaders } from './storage.js';
import { Tools } from './tools.js';

cleanHistory();

const PLUGINS = [BUILDER];
const TABS = EXAMPLES.map(({ query, variables = null }) => ({ query, variables }));
/** The operation in the page's own address, as a link carries it. */
const LINKED = new URLSearchParams(location.search);
const LINKED_TABS = LINKED.has('query')
  ? [{ query: LINKED.get('query') ?? '', variables: LINKED.get('variables') }, ...TABS]
  : TABS;
const NEW_TAB = `# Write an operation here, or choose an example.
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
  const [failure, setFailure] = useState('');
  const [spentAddress, setSpentAddress] = useState<string>();
  const [newKeyCommand, setNewKeyCommand] = useState<string>();
  // GraphiQL loads the schema again for each new fetcher. A ref lets the fetcher stay the same when the key changes.
  const keyInUse = useRef(key);

  const explain = useCallback((error: unknown): void => {
    if (!(error instanceof SendError)) throw error;
    setFailure(error.message);
  }, []);

  const useKey = useCallback(async (next: string) => {
    setFailure('');
    keyInUse.current = next;
    keyMemory.write(next);
    setKey(next);
    setPlan(undefined);
    setAnswer(undefined);
    if (next === '') return;
    const { result, answer: checked } = await send(CHECK, next);
    if (keyInUse.current !== next) return;
    setAnswer({ ...checked, sent: undefined });
    setPlan((result.data as { rateLimit?: { plan?: string } } | undefined)?.rateLimit?.plan);
  }, []);

  useEffect(() => {
    const remembered = keyInUse.current;
    const start = async (): Promise<void> => {
      const { keys, refusal } = await fetchDevelopmentKeys();
      setSpentAddress(refusal);
      if (keys) {
        keyMemory.writeDevelopmentKeys(keys);
        setDevelopmentKeys(keys);
      }
      const next = keys?.free ?? remembered;
      if (next !== '') await useKey(next);
      setNewKeyCommand(await fetchNewKeyCommand());
    };
    start().catch(explain).catch(console.error);
  }, [useKey, explain]);

  const fetcher = useCallback(
    async (operation: Operation, options?: { headers?: Record<string, string> | null }): Promise<object> => {
      // The schema needs no key, but a request with an invalid key would be refused.
      if (operation.operationName === 'IntrospectionQuery') return (await send(operation, '')).result;
      const rounded = findRoundedNumber(operation.variables);
      setAnswer((latest) => latest && { ...latest, sent: undefined });
      if (rounded !== undefined) {
        const message = `The browser has rounded a number in the variables to ${rounded}. Write it in quotes.`;
        return { errors: [{ message }] };
      }
      setFailure('');
      try {
        const { result, answer: latest } = await send(
          withCurrentName(operation),
          keyInUse.current,
          options?.headers ?? {},
        );
        setAnswer(latest);
        return result;
      } catch (error) {
        // GraphiQL would show a stack trace.
        if (!(error instanceof SendError)) throw error;
        return { errors: [{ message: error.message }] };
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
        <KeyField
          value={key}
          plan={plan}
          developmentKeys={developmentKeys}
          onChange={(next) => void useKey(next).catch(explain).catch(console.error)}
        />
        <Budget windows={answer?.windows ?? []} isOfAddress={answer?.status === 401} />
      </header>
      <main>
        <GraphiQL
          fetcher={fetcher}
          defaultTabs={LINKED_TABS}
          {...(LINKED.has('query') && { query: LINKED.get('query') ?? '', variables: LINKED.get('variables') ?? '' })}
          defaultQuery={NEW_TAB}
          plugins={PLUGINS}
          defaultEditorToolsVisibility="variables"
          referencePlugin={REFERENCE}
          visiblePlugin={undefined}
          shouldPersistHeaders={false}
          storage={historyWithoutHeaders}
          schemaDescription
        >
          <GraphiQL.Logo>{null}</GraphiQL.Logo>
          <GraphiQL.Toolbar>
            {({ merge, prettify, copy }) => (
              <>
                {prettify}
                {merge}
                {copy}
                <Tools apiKey={key} />
              </>
            )}
          </GraphiQL.Toolbar>
          <GraphiQL.Footer>
            <ResponseLine answer={answer} />
          </GraphiQL.Footer>
        </GraphiQL>
      </main>
      <Notices
        answer={answer}
        failure={failure}
        hasKey={key !== ''}
        spentAddress={spentAddress}
        newKeyCommand={newKeyCommand}
      />
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
