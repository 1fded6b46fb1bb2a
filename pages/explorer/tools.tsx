import { ToolbarButton, ToolbarMenu, useEditorContext } from '@graphiql/react';
import { useEffect, useRef, useState } from 'react';
import { copyText } from '../clipboard.js';
import { createIdempotencyKey } from '../../packages/client/src/idempotency-key.js';
import { EXAMPLES } from './examples.js';
import { findRoundedNumber } from './server.js';
import { toClientCode, toCurl, toFetch, type Edited } from './snippets.js';

/** Shapes of the icons, as SVG paths on a grid of 24. */
const SHAPES = {
  examples: 'M4 5h16M4 10h16M4 15h10M4 20h7',
  code: 'M8 6l-6 6 6 6M16 6l6 6-6 6M14 4l-4 16',
  link: 'M10 14a4 4 0 0 0 6 0l4-4a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-4 4a4 4 0 0 0 6 6l1-1',
  once: 'M12 3a9 9 0 1 0 9 9M12 8v8M10 9l2-1M10 16h4',
};

function Icon({ shape }: { readonly shape: keyof typeof SHAPES }) {
  return (
    <svg className="graphiql-toolbar-icon tool-icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={SHAPES[shape]} />
    </svg>
  );
}

const SNIPPETS = { 'Copy as curl': toCurl, 'Copy as fetch': toFetch, 'Copy as client code': toClientCode };

/** Buttons beside GraphiQL's own: examples, code for other programs, a link to the operation, an Idempotency-Key. */
export function Tools({ apiKey }: { readonly apiKey: string }) {
  const editors = useEditorContext({ nonNull: true });
  const { queryEditor, variableEditor, headerEditor, activeTabIndex } = editors;
  const [toShow, setToShow] = useState<(typeof EXAMPLES)[number]>();
  const [message, setMessage] = useState('');
  const tabBefore = useRef(activeTabIndex);

  // An example goes into a new tab, which GraphiQL opens a moment after `addTab`.
  useEffect(() => {
    if (toShow && activeTabIndex !== tabBefore.current) {
      queryEditor?.setValue(toShow.query);
      variableEditor?.setValue(toShow.variables ?? '');
      setToShow(undefined);
    }
    tabBefore.current = activeTabIndex;
  }, [toShow, activeTabIndex, queryEditor, variableEditor]);

  const read = (): Edited => ({
    query: queryEditor?.getValue() ?? '',
    operationName: queryEditor?.operationName ?? undefined,
    variables: parseObject(variableEditor?.getValue()) ?? {},
    headers: (parseObject(headerEditor?.getValue()) ?? {}) as Record<string, string>,
  });
  const copy = (text: string, what: string): void => {
    void copyText(text).then((isCopied) =>
      setMessage(isCopied ? `${what} copied` : 'The browser does not allow this page to copy'),
    );
  };
  const copyCode = (format: (typeof SNIPPETS)[keyof typeof SNIPPETS]): void => {
    if (!parseObject(variableEditor?.getValue())) return setMessage('The variables are not a JSON object');
    const edited = read();
    const rounded = findRoundedNumber(edited.variables);
    if (rounded === undefined) copy(format(url, edited, apiKey), 'Code');
    else setMessage(`The browser rounds a number in the variables to ${rounded}: write it in quotes`);
  };
  const url = new URL('graphql', document.baseURI).href;

  // A modal menu would hide the rest of the page from screen readers, but not from the keyboard.
  return (
    <>
      <ToolbarMenu modal={false} label="Open an example" button={<Icon shape="examples" />}>
        {EXAMPLES.map((example) => (
          <ToolbarMenu.Item
            key={example.name}
            onSelect={() => {
              setToShow(example);
              editors.addTab();
            }}
          >
            {example.name}
          </ToolbarMenu.Item>
        ))}
      </ToolbarMenu>
      <ToolbarMenu modal={false} label="Copy as code" button={<Icon shape="code" />}>
        {Object.entries(SNIPPETS).map(([label, format]) => (
          <ToolbarMenu.Item key={label} onSelect={() => copyCode(format)}>
            {label}
          </ToolbarMenu.Item>
        ))}
      </ToolbarMenu>
      <ToolbarButton
        label="Copy a link to this operation"
        onClick={() => {
          const { query, variables } = read();
          const link = new URL('explorer', document.baseURI);
          link.searchParams.set('query', query);
          if (Object.keys(variables).length > 0) link.searchParams.set('variables', variableEditor?.getValue() ?? '');
          copy(link.href, 'Link');
        }}
      >
        <Icon shape="link" />
      </ToolbarButton>
      <ToolbarButton
        label="Add an Idempotency-Key header"
        onClick={() => {
          const headers = { ...read().headers, 'Idempotency-Key': createIdempotencyKey() };
          headerEditor?.setValue(JSON.stringify(headers, null, 2));
          setMessage('Idempotency-Key added under Headers');
        }}
      >
        <Icon shape="once" />
      </ToolbarButton>
      <span className="copied" role="status" onAnimationEnd={() => setMessage('')}>
        {message}
      </span>
    </>
  );
}

/** Parses the text of an editor, which may be empty. Returns undefined if it is not a JSON object. */
function parseObject(text = ''): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text.trim() || '{}');
    return value instanceof Object && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
