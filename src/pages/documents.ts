import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';

const ROOT = new URL('../../', import.meta.url);
export const FIRST_DOCUMENT = '/docs/README';
/** Documents of the package: the README and what is in `docs/`. */
const NAME = /^\/docs\/(README|[a-z-]+)$/;

export interface RenderedDocument {
  readonly title: string;
  readonly content: string;
}

/** Finds a document by its path on this server. Documents are trusted: they come with the program. */
export async function findDocument(path: string): Promise<RenderedDocument | undefined> {
  const name = NAME.exec(path)?.[1];
  if (name === undefined) return undefined;
  const file = new URL(name === 'README' ? 'README.md' : `docs/${name}.md`, ROOT);
  try {
    return await render(await readFile(file, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

async function render(text: string): Promise<RenderedDocument> {
  // Loaded when somebody opens a document, not at every start.
  const { default: MarkdownIt } = await import('markdown-it');
  const markdown = new MarkdownIt({ html: true });
  const tokens = markdown.parse(text, {});
  let title = '';
  for (const [index, token] of tokens.entries()) {
    const children = tokens[index + 1]?.children ?? [];
    if (token.type === 'heading_open') {
      const heading = children.map(({ content }) => content).join('');
      if (title === '') title = heading;
      token.attrSet('id', toAnchor(heading));
    }
    // A wide table scrolls, also with the keyboard.
    if (token.type === 'table_open') token.attrSet('tabindex', '0');
    for (const child of token.children ?? []) {
      if (child.type === 'image') child.attrSet('src', await toImage(String(child.attrGet('src'))));
      if (child.type === 'link_open') child.attrs = toLink(String(child.attrGet('href')));
    }
  }
  return { title, content: markdown.renderer.render(tokens, markdown.options, {}) };
}

/** The anchor that GitHub gives to a heading. */
function toAnchor(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
}

/** Links lead to the other documents and to other sites. Files that are only in the repository become text. */
function toLink(target: string): [string, string][] {
  if (/^(?:https?:|#)/.test(target)) return [['href', target]];
  const [, name, anchor = ''] = /^(?:docs\/|\.\.\/)?(README|[a-z-]+)\.md(#.*)?$/.exec(target) ?? [];
  return name === undefined ? [] : [['href', name + anchor]];
}

/** The page may load no images from anywhere, so they become part of it. */
async function toImage(source: string): Promise<string> {
  const bytes = await readFile(new URL(`docs/${basename(source)}`, ROOT));
  return `data:image/png;base64,${bytes.toString('base64')}`;
}
