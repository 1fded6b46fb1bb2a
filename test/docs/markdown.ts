import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import MarkdownIt from 'markdown-it';

type Token = ReturnType<MarkdownIt['parse']>[number];

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A fenced block. */
export interface Block {
  /** The path of the document from the root of the project. */
  readonly document: string;
  /** The line of its first line of text, counted from 1. */
  readonly line: number;
  /** The first word behind the fence; empty for a block of plain text, which nobody runs. */
  readonly language: string;
  /** What stands behind the language. */
  readonly role: string;
  readonly text: string;
  /** What a comment above the block says: `<!-- given: … -->`, the situation in which the block holds. */
  readonly given: string | undefined;
  /** What may differ from what is printed: `<!-- varies: requestId, "in 57 s" -->`; see matching.ts. */
  readonly varies: readonly string[];
}

export interface Link {
  readonly line: number;
  readonly target: string;
}

/** A piece of code in running text. */
export interface InlineCode {
  readonly line: number;
  readonly text: string;
}

export interface Document {
  readonly path: string;
  readonly blocks: readonly Block[];
  readonly links: readonly Link[];
  readonly codes: readonly InlineCode[];
  /** What `#…` can name in it. */
  readonly anchors: ReadonlySet<string>;
}

const markdown = new MarkdownIt({ html: true });
const ANNOTATION = /<!--\s*(given|varies):\s*(.*?)\s*-->/gs;

export function readDocument(path: string): Document {
  return parseDocument(path, readFileSync(join(ROOT, path), 'utf8'));
}

export function parseDocument(path: string, text: string): Document {
  const blocks: Block[] = [];
  const links: Link[] = [];
  const codes: InlineCode[] = [];
  const headings: string[] = [];
  let annotations = new Map<string, string>();
  let previous: Token | undefined;
  let line = 1;
  for (const token of markdown.parse(text, {})) {
    line = token.map ? token.map[0] + 1 : line;
    if (token.type === 'html_block') {
      for (const [, name, value] of token.content.matchAll(ANNOTATION))
        annotations.set(name as string, value as string);
      continue;
    }
    if (token.type === 'fence') blocks.push(toBlock(path, token, annotations));
    for (const child of token.children ?? []) {
      if (child.type === 'code_inline') codes.push({ line, text: child.content });
      const target = child.type === 'image' ? child.attrGet('src') : child.attrGet('href');
      if (target !== null) links.push({ line, target });
    }
    if (previous?.type === 'heading_open') headings.push(plainText(token));
    annotations = new Map();
    previous = token;
  }
  return { path, blocks, links, codes, anchors: new Set(toAnchors(headings)) };
}

function toBlock(document: string, token: Token, annotations: ReadonlyMap<string, string>): Block {
  const [language = '', ...role] = token.info.trim().split(/\s+/);
  return {
    document,
    line: (token.map?.[0] ?? 0) + 2,
    language,
    role: role.join(' '),
    text: token.content,
    given: annotations.get('given'),
    varies: annotations.get('varies')?.match(/"[^"]+"|[^\s,]+/g) ?? [],
  };
}

function plainText(heading: Token): string {
  return (heading.children ?? []).map(({ content }) => content).join('');
}

/** The anchors that GitHub gives headings: lower case, without punctuation, with hyphens for spaces; repeated ones are numbered. */
function toAnchors(headings: readonly string[]): string[] {
  const seen = new Map<string, number>();
  return headings.map((heading) => {
    const anchor = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-');
    const before = seen.get(anchor) ?? 0;
    seen.set(anchor, before + 1);
    return before === 0 ? anchor : `${anchor}-${before}`;
  });
}
