import { explorerPlugin } from '@graphiql/plugin-explorer';
import { useOperationsEditorState, type GraphiQLPlugin } from '@graphiql/react';
import type { ReactElement } from 'react';

const TITLE = 'Build an operation';
const ONLY_COMMENTS = /^(?:[\s,]|#.*(?:\n|$))*$/;
const PLUGIN = explorerPlugin({ title: TITLE });
/** The same panel, for an editor that holds no operation. */
const EMPTY = explorerPlugin(Object.assign({ title: TITLE }, { query: '' }));

/** The panel in which an operation is built by clicking. */
export const BUILDER: GraphiQLPlugin = { ...PLUGIN, title: TITLE, content: Builder };

/**
 * While a text cannot be parsed, the panel shows the last one that could. For a new tab, which holds only comments, that
 * is the operation of another tab, and the first click would write it into this one.
 */
function Builder() {
  const [text] = useOperationsEditorState();
  // Called, not rendered: otherwise the first click would make a new panel, without the focus.
  return ((ONLY_COMMENTS.test(text) ? EMPTY : PLUGIN).content as () => ReactElement)();
}
