/** Copies a text that is kept. A part of a longer text would keep all of it in memory. */
export function copyText(text: string): string {
  return Buffer.from(text).toString();
}
