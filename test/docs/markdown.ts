import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import MarkdownIt from 'markdown-it';

type Token = ReturnType<InstanceType<typeof MarkdownIt>['parse']>[number];

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A fenced block. */
export interface Block {
  /** The line number of its first line of text, from 1. */
  readonly line: number;
  /** The first word after the fence. Blocks without one are not run. */
  readonly language: string;
  /** The words after the language. */
  readonly role: string;
  readonly text: string;
  /** `<!-- given: … -->` above a request: a situation from situations.ts. */
  readonly given: string | undefined;
  /** `<!-- varies: requestId, "in 57 s" -->` above a response: what may differ, as defined in matching.ts. */
  readonly varies: readonly string[];
  /** `<!-- not run: reason -->`. */
  readonly isNotRun: boolean;
}

/** A link, or a piece of code in running text. */
export interface Inline {
  readonly line: number;
  readonly text: string;
}

export interface Document {
  readonly path: string;
  readonly blocks: readonly Block[];
  /** The targets of the links and images. */
  readonly links: readonly Inline[];
  readonly codes: readonly Inline[];
  /** The anchors that `#…` can name. */
  readonly anchors: ReadonlySet<string>;
}

/** The documents whose blocks are run. */
export function listGuides(): string[] {
  const docs = readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md'));
  const examples = readdirSync(join(ROOT, 'examples')).map((name) => `examples/${name}/README.md`);
  const paths = ['README.md', 'packages/client/README.md', ...docs.map((name) => `docs/${name}`), ...examples];
  return paths.filter((path) => existsSync(join(ROOT, path)));
}

const markdown = new MarkdownIt({ html: true });
const ANNOTATION = /<!--\s*(given|varies|not run):\s*(.*?)\s*-->/gs;

export function readDocument(path: string): Document {
  const blocks: Block[] = [];
  const links: Inline[] = [];
  const codes: Inline[] = [];
  const headings: string[] = [];
  let annotations = new Map<string | undefined, string | undefined>();
  let previous: Token | undefined;
  let line = 1;
  for (const token of markdown.parse(readFileSync(join(ROOT, path), 'utf8'), {})) {
    line = token.map ? token.map[0] + 1 : line;
    if (token.type === 'html_block') {
      for (const [, name, value] of token.content.matchAll(ANNOTATION)) annotations.set(name, value);
      continue;
    }
    if (token.type === 'fence') {
      const [language = '', ...role] = token.info.trim().split(/\s+/);
      blocks.push({
        line: line + 1,
        language,
        role: role.join(' '),
        text: token.content,
        given: annotations.get('given'),
        varies: annotations.get('varies')?.match(/"[^"]+"|[^\s,]+/g) ?? [],
        isNotRun: annotations.has('not run'),
      });
    }
    for (const child of token.children ?? []) {
      if (child.type === 'code_inline') codes.push({ line, text: child.content });
      const target = child.type === 'image' ? child.attrGet('src') : child.attrGet('href');
      if (target !== null) links.push({ line, text: String(target) });
    }
    if (previous?.type === 'heading_open') headings.push((token.children ?? []).map(({ content }) => content).join(''));
    annotations = new Map();
    previous = token;
  }
  return { path, blocks, links, codes, anchors: new Set(toAnchors(headings)) };
}

/** The anchors that GitHub gives to headings. Repeated ones are numbered. */
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
