// Bundles the offline explorer out of explorer/ into dist/explorer-page/: a page, and a script and a style sheet whose names
// change with what they hold, each also as gzip.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const TARGET = 'dist/explorer-page';

/** GraphiQL's style sheet carries its fonts inside, nine tenths of it. The page uses the system's. */
const withoutFonts = {
  name: 'without-fonts',
  setup: ({ onLoad }) =>
    onLoad({ filter: /graphiql\/dist\/style\.css$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replace(/@font-face\s*\{[^}]*\}/g, ''),
      loader: 'css',
    })),
};

/** @returns the files of the explorer by their names below /explorer */
async function bundle() {
  const { outputFiles } = await build({
    entryPoints: { explorer: 'explorer/main.tsx' },
    outdir: 'assets',
    entryNames: '[name]-[hash]',
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: ['es2022'],
    jsx: 'automatic',
    legalComments: 'linked',
    define: { 'process.env.NODE_ENV': '"production"' },
    alias: { 'react-style-singleton': './explorer/no-style-elements.ts' },
    plugins: [withoutFonts],
    tsconfig: 'explorer/tsconfig.json',
    logLevel: 'warning',
  });
  const assets = outputFiles.map(({ path, contents }) => [basename(path), Buffer.from(contents)]);
  const find = (extension) => `explorer/${assets.find(([name]) => name.endsWith(extension))[0]}`;
  const page = readFileSync('explorer/index.html', 'utf8')
    .replace('%STYLE%', find('.css'))
    .replace('%SCRIPT%', find('.js'));
  return [['index.html', Buffer.from(page)], ...assets];
}

/** Writes the explorer beside the compiled program. A server that runs meanwhile must not read half of it. */
export async function buildExplorer() {
  const unfinished = `${TARGET}.new`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  for (const [name, contents] of await bundle()) {
    writeFileSync(`${unfinished}/${name}`, contents);
    writeFileSync(`${unfinished}/${name}.gz`, gzipSync(contents, { level: 9 }));
  }
  rmSync(TARGET, { recursive: true, force: true });
  renameSync(unfinished, TARGET);
}
