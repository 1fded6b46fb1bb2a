/** Gives names to the fields that Swagger UI leaves without one, now and after each change of the page. */
export function completeAccessibility(root: HTMLElement): void {
  const complete = (): void => {
    for (const field of root.querySelectorAll('select, textarea, input:not([type=file])')) {
      if (field.hasAttribute('aria-label')) continue;
      const name = field.closest('tr')?.getAttribute('data-param-name');
      field.setAttribute('aria-label', name ?? (field.matches('textarea') ? 'Request body' : 'Media type or example'));
    }
    // A region that scrolls can be reached by the keyboard.
    for (const region of root.querySelectorAll('pre, .responses-inner, .parameters-container'))
      if (!region.hasAttribute('tabindex')) region.setAttribute('tabindex', '0');
  };
  new MutationObserver(complete).observe(root, { subtree: true, childList: true });
  complete();
}
