import { useEditorContext, useSchemaStore } from '@graphiql/react';
import { parse, print, separateOperations, validate, type GraphQLSchema } from 'graphql';
import { useEffect, useState } from 'react';
import { toDryRun } from '../../packages/client/src/price.js';
import { leftOf } from './budget.js';
import { useNow } from './now.js';
import { send, type Answer } from './server.js';

/** The server prices sixty operations a minute. */
const TYPING_MS = 1_000;

export interface PriceProps {
  readonly apiKey: string;
  /** The last one for the key. */
  readonly answer: Answer | undefined;
}

/** Shows what the query in the editor would cost, while the user types. */
export function Price({ apiKey, answer }: PriceProps) {
  const { queryEditor, variableEditor } = useEditorContext({ nonNull: true });
  const store = useSchemaStore();
  const { schema } = store;
  const [cost, setCost] = useState<number>();
  const windows = answer?.windows ?? [];
  const isReady = apiKey !== '' && windows.length > 0;

  // In production, the schema needs a valid key.
  useEffect(() => {
    if (apiKey !== '' && answer?.status === 200 && store.fetchError) void store.introspect();
  }, [answer]);

  useEffect(() => {
    if (!queryEditor || !variableEditor || !schema || !isReady) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let latest: string | undefined = '';
    const ask = async (): Promise<void> => {
      const dryRun = createDryRun(schema, queryEditor.getValue(), variableEditor.getValue());
      const asked = JSON.stringify(dryRun);
      if (asked === latest) return;
      latest = asked;
      setCost(undefined);
      const sent = dryRun && (await send(dryRun, apiKey).catch(() => undefined));
      if (asked === latest) setCost((sent?.result.data as { _0?: { cost: number } } | undefined)?._0?.cost);
    };
    const wait = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => void ask(), TYPING_MS);
    };
    const editors = [queryEditor, variableEditor];
    for (const editor of editors) editor.on('change', wait);
    wait();
    return () => {
      clearTimeout(timer);
      latest = '';
      for (const editor of editors) editor.off('change', wait);
    };
  }, [queryEditor, variableEditor, schema, apiKey, isReady]);

  const now = useNow(isReady);
  const [fullest] = windows.toSorted((a, b) => leftOf(a, now) - leftOf(b, now));
  if (!isReady || cost === undefined || !fullest) return null;
  const left = leftOf(fullest, now);
  const unit = fullest.name === 'minute' || fullest.name === 'day' ? ` this ${fullest.name}` : '';
  return (
    <p className="price">
      Costs <b data-low={cost > left || undefined}>{cost}</b> of the {left.toLocaleString('en')} left{unit}
    </p>
  );
}

/** @returns undefined for what is not valid, has a mutation, or has several operations: nobody knows which will run */
function createDryRun(schema: GraphQLSchema, query: string, variables: string) {
  try {
    const document = parse(query);
    if (validate(schema, document).length > 0) return undefined;
    const [operation, other] = Object.values(separateOperations(document));
    const values = JSON.parse(variables.trim() || '{}') as Record<string, unknown>;
    return operation && !other ? { query: toDryRun(print(operation)), variables: values } : undefined;
  } catch {
    return undefined;
  }
}
