/** Completes what Swagger UI leaves out for screen readers and the keyboard, now and after each change of the page. */
export function completeAccessibility(root: HTMLElement): void {
  const complete = (): void => {
    for (const field of root.querySelectorAll('select, textarea, input:not([type=file])')) {
      if (field.hasAttribute('aria-label')) continue;
      const name = field.closest('tr')?.getAttribute('data-param-name');
      field.setAttribute('aria-label', name ?? (field.matches('textarea') ? 'Request body' : 'Media type or example'));
    }
    for (const info of root.querySelectorAll('.information-container')) {
      info.setAttribute('role', 'region');
      info.setAttribute('aria-label', 'About the interface');
    }
    // There is no h2.
    for (const heading of root.querySelectorAll('h3, h4, h5'))
      heading.setAttribute('aria-level', String(Number(heading.tagName[1]) - 1));
    // Each operation has such a region, all with the same name.
    for (const table of root.querySelectorAll('table[role=region]')) table.removeAttribute('role');
    // A region that scrolls can be reached by the keyboard.
    for (const region of root.querySelectorAll('pre, .responses-inner, .parameters-container'))
      if (!region.hasAttribute('tabindex')) region.setAttribute('tabindex', '0');
  };
  new MutationObserver(complete).observe(root, { subtree: true, childList: true });
  complete();
}
