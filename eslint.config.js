import { defineConfig } from 'eslint/config';
import regexp from 'eslint-plugin-regexp';
import tseslint from 'typescript-eslint';

/** The fence of a folder: what its files may not import. Imports point one way: main → app → everything. */
function fence(files, patterns) {
  return { files, rules: { '@typescript-eslint/no-restricted-imports': ['error', { patterns }] } };
}

const APOLLO = {
  group: ['graphql', 'graphql/*', '@apollo/*', '@graphql-tools/*', 'graphql-rate-limit'],
  message: 'GraphQL lives in graphql/.',
};
const UNDICI = { group: ['undici'], message: 'undici lives in proxy/.' };
const DRIVERS = { group: ['pg', 'pg/*', '@electric-sql/*', 'postgrator'], message: 'SQL drivers live in store/.' };
const REDIS = { group: ['ioredis'], message: 'Redis lives in redis/.' };
const MCP = { group: ['@modelcontextprotocol/*'], message: 'The Model Context Protocol lives in mcp/.' };
const OTEL = { group: ['@opentelemetry/*'], message: 'OpenTelemetry lives in observability/.' };
const HTTP = { group: ['**/http/*', 'node:http'], message: 'access and pets know no HTTP.' };
const folders = (...names) => ({
  group: names.map((name) => `**/${name}/*`),
  message: 'Imports point from the edge inwards.',
});
const TOP = {
  group: ['**/app.js', '**/main.js', '**/environment.js'],
  message: 'Only main and the commands import these.',
};
const SOURCES = {
  regex: 'postgres-pet-source|postgres-key-store|postgres-usage|memory-ledger|redis/ledger',
  message: 'Take the contract; app.ts hands the implementation over.',
};

const INNERMOST = [APOLLO, UNDICI, DRIVERS, REDIS, MCP, OTEL, HTTP, TOP];

export default defineConfig(
  {
    ignores: [
      '**/dist/',
      'node_modules/',
      'src/graphql/generated/',
      'coverage/',
      '.data/',
      'examples/frontend/',
      'examples/rest/',
    ],
  },
  {
    files: ['**/*.{ts,tsx}'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/prefer-nullish-coalescing': ['error', { ignorePrimitives: { string: true } }],
      '@typescript-eslint/no-confusing-void-expression': [
        'error',
        { ignoreArrowShorthand: true, ignoreVoidReturningFunctions: true },
      ],
      // The casts after index access say what the code knows; the style here is a cast, not a bang.
      '@typescript-eslint/non-nullable-type-assertion-style': 'off',
      eqeqeq: ['error', 'always', { null: 'ignore' }],
    },
  },
  // Every regular expression takes linear time, because it may read what a stranger sent.
  {
    files: ['src/**/*.ts', 'packages/client/src/**/*.ts', 'pages/**/*.{ts,tsx}'],
    plugins: { regexp },
    rules: {
      'regexp/no-super-linear-backtracking': ['error', { report: 'potential' }],
      'regexp/no-super-linear-move': ['error', { report: 'potential' }],
    },
  },
  // Apollo wants promises from its hooks.
  { files: ['src/graphql/*.ts'], rules: { '@typescript-eslint/require-await': 'off' } },
  // What a server answers has the shape that the test's own request asks for.
  {
    files: ['test/**', 'packages/*/test/**'],
    rules: {
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-explicit-any': 'off',
    },
  },
  fence(['src/errors.ts'], [{ group: ['*'], message: 'errors.ts imports nothing.' }]),
  fence(['packages/client/src/**'], [{ regex: '^(?!\\./)', message: 'The client imports only its own files.' }]),
  fence(['packages/client/src/errors.ts'], [{ group: ['*'], message: 'The catalogue imports nothing.' }]),
  fence(
    ['packages/client/src/link.ts'],
    [{ regex: '^(?!\\./|(@apollo/client/link|rxjs)$)', message: 'The link also imports Apollo Client and rxjs.' }],
  ),
  fence(
    ['packages/client/src/exchange.ts'],
    [{ regex: '^(?!\\./|(@urql/core|wonka)$)', message: 'The exchange also imports urql and wonka.' }],
  ),
  fence(
    ['src/access/**'],
    [...INNERMOST, folders('graphql', 'rest', 'mcp', 'pets', 'proxy', 'redis', 'store', 'observability', 'cli')],
  ),
  // The contract of the sources names the caller's key in the terms of access/.
  fence(['src/pets/**'], [...INNERMOST, folders('graphql', 'rest', 'mcp', 'proxy', 'redis', 'observability', 'cli')]),
  fence(['src/proxy/**'], [APOLLO, DRIVERS, REDIS, OTEL, HTTP, TOP, folders('graphql', 'rest', 'mcp', 'store', 'cli')]),
  fence(['src/store/**'], [APOLLO, UNDICI, REDIS, HTTP, TOP, folders('graphql', 'rest', 'mcp', 'proxy', 'cli')]),
  fence(
    ['src/graphql/**'],
    [UNDICI, DRIVERS, REDIS, MCP, OTEL, SOURCES, TOP, folders('rest', 'mcp', 'store', 'redis', 'cli')],
  ),
  fence(
    ['src/rest/**'],
    [APOLLO, UNDICI, DRIVERS, REDIS, MCP, OTEL, SOURCES, TOP, folders('graphql', 'mcp', 'store', 'redis', 'cli')],
  ),
  fence(
    ['src/mcp/**'],
    [APOLLO, UNDICI, DRIVERS, REDIS, OTEL, SOURCES, TOP, folders('graphql', 'rest', 'proxy', 'store', 'redis', 'cli')],
  ),
  fence(
    ['src/http/**'],
    [
      APOLLO,
      UNDICI,
      DRIVERS,
      REDIS,
      OTEL,
      SOURCES,
      TOP,
      folders('graphql', 'rest', 'mcp', 'store', 'pets', 'redis', 'cli'),
    ],
  ),
  fence(
    ['src/pages/**'],
    [
      APOLLO,
      UNDICI,
      DRIVERS,
      SOURCES,
      TOP,
      folders('graphql', 'rest', 'mcp', 'store', 'pets', 'access', 'cli', 'observability'),
    ],
  ),
  fence(
    ['src/observability/**'],
    [
      APOLLO,
      UNDICI,
      DRIVERS,
      REDIS,
      SOURCES,
      TOP,
      folders('graphql', 'rest', 'mcp', 'store', 'pets', 'access', 'redis', 'cli'),
    ],
  ),
  fence(
    ['src/redis/**'],
    [APOLLO, UNDICI, DRIVERS, HTTP, TOP, folders('graphql', 'rest', 'mcp', 'store', 'pets', 'cli')],
  ),
);
