/** Names for the editors, which have none in GraphiQL. */
const NAMES: readonly (readonly [selector: string, label: string])[] = [
  ['.graphiql-query-editor', 'Operation'],
  ['.graphiql-editor-tool .graphiql-editor:nth-child(1)', 'Variables'],
  ['.graphiql-editor-tool .graphiql-editor:nth-child(2)', 'Headers'],
  ['.result-window', 'Response'],
];

/**
 * Completes what GraphiQL leaves out for screen readers and the keyboard, now and after each change of the page:
 *
 * - Editors get a role, a name and a description.
 * - An open menu, which lies above the page, becomes a region.
 * - Tabs become a list of buttons. In GraphiQL, a tab contains buttons, which a tab must not.
 */
export function completeAccessibility(): void {
  const complete = (): void => {
    for (const [selector, label] of NAMES)
      for (const editor of document.querySelectorAll(`${selector} .CodeMirror-code`)) {
        set(editor, 'role', 'textbox');
        set(editor, 'aria-multiline', 'true');
        set(editor, 'aria-label', label);
        set(editor, 'aria-describedby', 'editor-keys');
      }
    // The name of an entry of the history is its text.
    for (const entry of document.querySelectorAll('.graphiql-history-item-label')) entry.removeAttribute('aria-label');
    for (const search of document.querySelectorAll('.graphiql-doc-explorer-search')) set(search, 'role', 'search');
    for (const menu of document.querySelectorAll('[data-radix-popper-content-wrapper]:has(> [role=menu])')) {
      set(menu, 'role', 'region');
      set(menu, 'aria-label', 'Menu');
    }
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

/** Lets Tab and Shift-Tab leave an editor after Escape. Otherwise they indent. */
export function letTabLeaveEditors(): void {
  let isLeaving = false;
  const onKey = (event: KeyboardEvent): void => {
    if (!(event.target as Element).closest('.CodeMirror')) return;
    // The editor does not see the key, so the browser moves the focus.
    if (event.key === 'Tab' && isLeaving) event.stopPropagation();
    if (event.key !== 'Shift') isLeaving = event.key === 'Escape';
  };
  document.addEventListener('keydown', onKey, { capture: true });
}
