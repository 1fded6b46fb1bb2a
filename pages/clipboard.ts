/** Copies a text. Returns false if the browser does not allow that, as on pages without TLS from another machine. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Makes a button copy a text. If the browser does not allow that, the text is selected, and the user can press Ctrl-C. */
export function copyOnClick(button: HTMLElement, text: HTMLElement, done: string): void {
  button.addEventListener('click', () => {
    void copyText(text.textContent).then((isCopied) => {
      if (isCopied) button.textContent = done;
      else getSelection()?.selectAllChildren(text);
    });
  });
}
