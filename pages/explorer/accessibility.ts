/** Names for what has none in GraphiQL. */
const NAMES: readonly (readonly [selector: string, label: string])[] = [
  ['.graphiql-query-editor textarea', 'Operation'],
  ['.graphiql-editor-tool .graphiql-editor:nth-child(1) textarea', 'Variables'],
  ['.graphiql-editor-tool .graphiql-editor:nth-child(2) textarea', 'Headers'],
  ['.result-window textarea', 'Response'],
  ['.graphiql-explorer-actions select', 'Kind of operation'],
];

/**
 * Completes what GraphiQL leaves out for screen readers and the keyboard, now and after each change of the page:
 *
 * - Editors and other controls get names, and editors that scroll can be reached by the keyboard.
 * - Tabs become a list of buttons. In GraphiQL, a tab contains buttons, which a tab must not.
 */
export function completeAccessibility(): void {
  const complete = (): void => {
    for (const [selector, label] of NAMES)
      for (const editor of document.querySelectorAll(selector)) set(editor, 'aria-label', label);
    for (const argument of document.querySelectorAll<HTMLElement>('.graphiql-explorer-root [data-arg-name]'))
      for (const field of argument.querySelectorAll('input, select'))
        set(field, 'aria-label', argument.dataset.argName ?? '');
    // The name of an entry of the history is its text.
    for (const entry of document.querySelectorAll('.graphiql-history-item-label')) entry.removeAttribute('aria-label');
    for (const scroller of document.querySelectorAll('.CodeMirror-scroll')) set(scroller, 'tabindex', '0');
    for (const search of document.querySelectorAll('.graphiql-doc-explorer-search')) set(search, 'role', 'search');
    for (const tabs of document.querySelectorAll('.graphiql-tabs')) set(tabs, 'role', 'list');
    for (const tab of document.querySelectorAll('.graphiql-tab')) {
      set(tab, 'role', 'listitem');
      const button = tab.querySelector('.graphiql-tab-button');
      if (button) set(button, 'aria-current', String(tab.classList.contains('graphiql-tab-active')));
      tab.removeAttribute('aria-selected');
    }
  };
  new MutationObserver(complete).observe(document.body, { subtree: true, childList: true, attributeFilter: ['class'] });
  complete();
}

function set(element: Element, name: string, value: string): void {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}
