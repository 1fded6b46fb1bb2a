import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { toMarkdown } from './markdown.mjs';

/** Prints the Markdown and writes it where it belongs. False when something failed that should not have. */
export async function writeReport(result, options, directory) {
  const text = await pretty(toMarkdown(result, options));
  console.log(text);
  const file = options.out ?? (options.isWhole ? join(directory, 'results.md') : undefined);
  if (file !== undefined) {
    writeFileSync(file, text);
    console.error(`written to ${file}`);
  }
  return result.results.every(({ servers }) =>
    [...servers.values()].every(({ failure, isOptional }) => failure === undefined || isOptional),
  );
}

/** As the linter of the project wants files; the table is as good without. */
async function pretty(text) {
  try {
    const { format } = await import('prettier');
    return await format(text, { parser: 'markdown', printWidth: 120 });
  } catch {
    return text;
  }
}
