import { DOC_EXPLORER_PLUGIN, DocExplorer } from '@graphiql/plugin-doc-explorer';
import type { GraphiQLPlugin } from '@graphiql/react';
import { useEffect, useRef } from 'react';

/** GraphiQL's documentation, but with deprecated fields visible. By default, a button hides them. */
export const REFERENCE: GraphiQLPlugin = { ...DOC_EXPLORER_PLUGIN, content: Reference };

function Reference() {
  const root = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = root.current;
    if (element === null) return undefined;
    const reveal = (): void => {
      for (const button of element.querySelectorAll('button')) {
        if (button.textContent.startsWith('Show Deprecated')) button.click();
      }
    };
    const observer = new MutationObserver(reveal);
    observer.observe(element, { childList: true, subtree: true });
    reveal();
    return () => observer.disconnect();
  }, []);
  return (
    <div ref={root}>
      <DocExplorer />
    </div>
  );
}
