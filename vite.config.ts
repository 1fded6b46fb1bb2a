import { fileURLToPath } from 'node:url';
import createSbom from 'rollup-plugin-sbom';
import { defineConfig, type Plugin } from 'vite';

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

/** Writes sbom.json: what is in a bundle, in CycloneDX. Without a time, so that equal sources give equal files. */
const sbom = createSbom({ outDir: '.', outFilename: 'sbom', includeWellKnown: false, saveTimestamp: false }) as Plugin;

const license = { fileName: 'licenses.txt' };

// `vite build --app` builds both environments: the server, and the pages that it serves.
export default defineConfig({
  root: toPath('pages'),
  publicDir: false,
  builder: {},
  environments: {
    ssr: {
      resolve: {
        // The server's packages are bundled with it, which halves the time to start.
        noExternal: true,
        // These packages read files next to their own code. pg looks for pg-native, which is not installed.
        external: ['@electric-sql/pglite', 'pino', 'pino-pretty', 'pg-native'],
        // Load CommonJS packages as Node does. A second copy of graphql would reject the schema made by the first.
        mainFields: ['main'],
        extensions: ['.js', '.json'],
      },
      build: {
        ssr: true,
        // At the same depth as the files in the folders of src/, so that relative paths such as ../../schema/ hold.
        outDir: toPath('dist/bundle'),
        emptyOutDir: true,
        license,
        target: 'node20.19',
        rolldownOptions: {
          input: [
            'src/main.ts',
            'src/cli/keys.ts',
            'src/cli/store.ts',
            'src/cli/migrate.ts',
            'src/cli/animal-store-gateway.ts',
          ].map(toPath),
          output: { chunkFileNames: '[name]-[hash].js', hashCharacters: 'hex' },
        },
      },
    },
    client: {
      build: {
        outDir: toPath('dist/pages'),
        emptyOutDir: true,
        license,
        target: 'es2022',
        modulePreload: { polyfill: false },
        rolldownOptions: {
          // GraphiQL derives the titles of its icons from the names of functions.
          output: { keepNames: true },
          input: ['index', 'explorer', 'reference', 'document'].map((name) => toPath(`pages/${name}.html`)),
        },
      },
    },
  },
  // Addresses are relative, so that the pages also work under a path prefix.
  base: './',
  // Dialogs use it to write a style element into the page, which the page's policy forbids.
  resolve: { alias: { 'react-style-singleton': toPath('pages/explorer/no-style-elements.ts') } },
  plugins: [removeFonts, sbom],
});
