/** Copies a text. Returns false if the browser does not allow that, as on pages without TLS from another machine. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
