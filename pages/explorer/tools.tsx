import {
  ToolbarButton,
  ToolbarMenu,
  useCopyQuery,
  useEditorContext,
  useMergeQuery,
  usePrettifyEditors,
} from '@graphiql/react';
import { copyText } from '../clipboard.js';
import { PLACEHOLDER, toCurl, toFetch, type Edited } from './snippets.js';

/** Servers and proxies refuse long URLs. */
const MAX_LINK_LENGTH = 8_000;

export interface ToolsProps {
  readonly apiKey: string;
  /** Tells the user what was copied, or why nothing was. */
  readonly onMessage: (message: string) => void;
}

/** GraphiQL's tools with words in place of icons, and a menu that copies the operation for other programs and people. */
export function Tools({ apiKey, onMessage }: ToolsProps) {
  const { queryEditor, variableEditor, headerEditor } = useEditorContext({ nonNull: true });
  const tools: readonly (readonly [word: string, label: string, use: () => unknown])[] = [
    ['Prettify', 'Prettify query (Shift-Ctrl-P)', usePrettifyEditors()],
    ['Merge', 'Merge fragments into query (Shift-Ctrl-M)', useMergeQuery()],
    ['Copy', 'Copy query (Shift-Ctrl-C)', useCopyQuery()],
  ];
  const read = () => ({ query: queryEditor?.getValue() ?? '', variables: variableEditor?.getValue() ?? '' });
  const toCode = (format: typeof toCurl, key?: string) => (): string => {
    const headers = JSON.parse(headerEditor?.getValue().trim() || '{}') as Edited['headers'];
    const operation = { ...read(), operationName: queryEditor?.operationName ?? undefined, headers };
    return format(new URL('graphql', document.baseURI).href, operation, key);
  };
  const toLink = (): string => new URL(`explorer?${new URLSearchParams(read()).toString()}`, document.baseURI).href;
  const items: readonly (readonly [label: string, format: () => string])[] = [
    ['Copy as curl, with your key', toCode(toCurl, apiKey)],
    [`Copy as curl, with ${PLACEHOLDER} instead`, toCode(toCurl)],
    ['Copy as fetch, with your key', toCode(toFetch, apiKey)],
    [`Copy as fetch, with ${PLACEHOLDER} instead`, toCode(toFetch)],
    ['Copy a link to this operation, without the key', toLink],
  ];
  const copy = async (format: () => string): Promise<string> => {
    let text;
    try {
      text = format();
    } catch {
      return 'Nothing was copied: the headers are not valid.';
    }
    if (format === toLink && text.length > MAX_LINK_LENGTH) return 'The operation is too long for a link.';
    if (!(await copyText(text))) return 'The browser does not allow this page to copy.';
    if (format === toLink) return 'Link copied. It contains no key.';
    return text.includes(`Bearer ${PLACEHOLDER}`)
      ? `Code copied. Write a key in place of ${PLACEHOLDER}.`
      : 'Code copied. It contains your key.';
  };

  return (
    <>
      {tools.map(([word, label, use]) => (
        <ToolbarButton key={word} label={label} onClick={() => void use()}>
          {word}
        </ToolbarButton>
      ))}
      {/* A modal menu would hide the rest of the page from screen readers, but not from the keyboard. */}
      <ToolbarMenu modal={false} label="Copy as code or link" button="Copy as…">
        {items.map(([label, format]) => (
          <ToolbarMenu.Item key={label} onSelect={() => void copy(format).then(onMessage)}>
            {label}
          </ToolbarMenu.Item>
        ))}
      </ToolbarMenu>
    </>
  );
}
