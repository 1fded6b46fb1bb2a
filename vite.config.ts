import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import MarkdownIt from 'markdown-it';
import { defineConfig, type Plugin } from 'vite';
import { toCollection, type OpenApi } from './pages/reference/collection.js';

const toPath = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

/** GraphiQL's style sheet embeds its fonts, nine tenths of its size. The page uses the fonts of the system. */
const removeFonts: Plugin = {
  name: 'remove-fonts',
  enforce: 'pre',
  transform: {
    filter: { id: /graphiql\/dist\/style\.css$/ },
    handler: (css) => css.replace(/@font-face\s*\{[^}]*\}/g, ''),
  },
};

/** Adds what the heads of all pages have in common. */
const completeHead: Plugin = {
  name: 'complete-head',
  transformIndexHtml: (html) =>
    html.replace(
      '<head>',
      `<head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <link rel="icon" href="data:," />`,
    ),
};

/** Makes a page of the README and of each file in `docs/`. Documents are trusted: they come with the program. */
const renderDocuments: Plugin = {
  name: 'render-documents',
  generateBundle: {
    order: 'post',
    handler(_, bundle) {
      const page = bundle['document.html'];
      if (page?.type !== 'asset') throw new Error('there is no document.html to fill in');
      // The pages of documents are one folder deeper than the files that they load.
      const template = String(page.source).replaceAll('"./assets/', '"../assets/');
      delete bundle['document.html'];
      const names = readdirSync(toPath('docs')).filter((name) => name.endsWith('.md'));
      for (const file of ['README.md', ...names.map((name) => `docs/${name}`)]) {
        const parts: Record<string, string> = renderDocument(readFileSync(toPath(file), 'utf8'));
        const source = template.replace(/\{\{(\w+)\}\}/g, (_, name: string) => parts[name] ?? '');
        this.emitFile({ type: 'asset', fileName: `docs/${basename(file, '.md')}.html`, source });
      }
    },
  },
};

/** Makes the collection of REST requests, without the path that servers have only if they are told to. */
const writeCollection: Plugin = {
  name: 'write-collection',
  generateBundle() {
    const document = JSON.parse(readFileSync(toPath('schema/openapi.json'), 'utf8')) as OpenApi;
    const { '/key/rotate': _, ...paths } = document.paths;
    const source = JSON.stringify(toCollection({ ...document, paths }));
    this.emitFile({ type: 'asset', fileName: 'collection.json', source });
  },
};

function renderDocument(text: string) {
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
      if (child.type === 'image') child.attrSet('src', toImage(String(child.attrGet('src'))));
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
function toImage(source: string): string {
  return `data:image/png;base64,${readFileSync(toPath(`docs/${basename(source)}`)).toString('base64')}`;
}

export default defineConfig({
  root: toPath('pages'),
  publicDir: false,
  build: {
    outDir: toPath('dist/public'),
    emptyOutDir: true,
    license: { fileName: 'licenses.txt' },
    target: 'es2022',
    modulePreload: { polyfill: false },
    rolldownOptions: {
      // GraphiQL derives the titles of its icons from the names of functions.
      output: { keepNames: true },
      input: ['index', 'explorer', 'reference', 'key', 'document', 'report'].map((name) =>
        toPath(`pages/${name}.html`),
      ),
    },
  },
  // Addresses are relative, so that the pages also work under a path prefix.
  base: './',
  // Dialogs use it to write a style element into the page, which the page's policy forbids.
  resolve: { alias: { 'react-style-singleton': toPath('pages/explorer/no-style-elements.ts') } },
  plugins: [completeHead, removeFonts, renderDocuments, writeCollection],
});
