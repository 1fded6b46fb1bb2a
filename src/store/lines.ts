/** Splits text at `\n` alone. Unlike readline, this keeps U+2028 and U+2029, which JSON does not escape. */
export async function* toLines(chunks: AsyncIterable<string>): AsyncGenerator<string, undefined> {
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() as string;
    yield* lines;
  }
  // A line without its end is not complete.
  return undefined;
}
