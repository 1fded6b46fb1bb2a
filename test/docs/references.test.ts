import { existsSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';
import { STORE_ERRORS } from '../../packages/client/src/errors.js';
import { SETTINGS } from '../../src/config.js';
import { TRACING_SETTINGS } from '../../src/tracing-config.js';
import { listDocuments, listGuides } from './documents.js';
import { readDocument, ROOT, type Document } from './markdown.js';
import packageJson from '../../package.json' with { type: 'json' };

const documents = new Map(listDocuments().map((path) => [path, readDocument(path)]));

/** Variables that documents speak of and that are no settings of the program. */
const OTHER_VARIABLES = new Set([
  // Of the tests and of CI.
  'CI',
  'TEST_REDIS_URL',
  'CHROMIUM_PATH',
  'HOSTILE_INPUTS',
  'BENCH_DATABASE_URL',
  // Of OpenTelemetry's own packages, which read them.
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_EXPORTER_OTLP_COMPRESSION',
  'OTEL_SERVICE_NAME',
  'OTEL_RESOURCE_ATTRIBUTES',
  'OTEL_PROPAGATORS',
  // Of an example, of the image's build, of a reader's shell.
  'STORE_KEY',
  'STORE_URL',
  'VITE_STORE_URL',
  'NODE_VERSION',
  'KEY',
  'ID',
]);
const KNOWN = new Set([...SETTINGS, ...TRACING_SETTINGS]);
const ASSIGNED = /(?:^|\s|`|export )([A-Z][A-Z0-9_]*)=/gm;
const NAMED = /^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*$/;

/** Codes of errors, fields of status, GraphQL and HTTP in capitals: what NAMED finds and is no variable. */
const NO_VARIABLES = new Set([
  ...Object.keys(STORE_ERRORS),
  ...['UNRECOGNIZED', 'INVALID_ID', 'CONNECTION_FAILED', 'TIMED_OUT'],
  ...['AVAILABLE', 'PENDING', 'SOLD', 'GET', 'POST', 'INSERT', 'SET', 'LISTEN', 'ID', 'KEY_ID', 'DIGEST', 'NULL'],
]);

/** What commands write. */
const WRITTEN = new Set(['src/gql/', 'test/browser/screenshots/']);

describe.each([...documents.values()])('$path', ({ path, links, codes, blocks }) => {
  it('has links that lead somewhere', () => {
    expect(
      links
        .filter(({ target }) => !leadsSomewhere(path, target))
        .map(({ line, target }) => `${path}:${line} ${target}`),
    ).toEqual([]);
  });

  it('names settings that there are', () => {
    const texts = [...codes, ...blocks];
    const assigned = texts.flatMap(({ line, text }) =>
      [...text.matchAll(ASSIGNED)].map(([, name]) => ({ line, name: name as string })),
    );
    const named = codes
      .filter(({ text }) => NAMED.test(text) && !NO_VARIABLES.has(text))
      .map(({ line, text }) => ({ line, name: text }));
    const unknown = [...assigned, ...named].filter(({ name }) => !KNOWN.has(name) && !OTHER_VARIABLES.has(name));
    expect(unknown.map(({ line, name }) => `${path}:${line} ${name}`)).toEqual([]);
  });

  it('names scripts and files that there are', () => {
    const wrong = [...codes, ...blocks].flatMap(({ line, text }) =>
      [...listScripts(text), ...listFiles(text)]
        .filter(({ exists }) => !exists)
        .map(({ name }) => `${path}:${line} ${name}`),
    );
    expect(wrong).toEqual([]);
  });
});

it.each([
  ['README.md', SETTINGS.filter((name) => !name.includes('TRACES'))],
  ['docs/tracing.md', TRACING_SETTINGS.filter((name) => !name.includes('TRACES_PROTOCOL'))],
])('has every setting in the tables of %s', (path, names) => {
  const { codes } = documents.get(path) as Document;
  const named = new Set(codes.flatMap(({ text }) => [text, text.replace('…', 'OTEL_BSP')]));
  expect(names.filter((name) => !named.has(name))).toEqual([]);
});

it('names every guide in the README', () => {
  const { links } = documents.get('README.md') as Document;
  const targets = links.map(({ target }) => target.replace(/#.*/, ''));
  const folders = targets.map((target) => `${target}/README.md`);
  expect(listGuides().filter((path) => path !== 'README.md' && ![...targets, ...folders].includes(path))).toEqual([]);
});

it('shows every error code in the guide, with an answer', () => {
  const { anchors, blocks } = documents.get('docs/graphql.md') as Document;
  const answers = blocks.map(({ text }) => text).join('');
  for (const code of Object.keys(STORE_ERRORS)) {
    expect(anchors).toContain(code.toLowerCase());
    expect(answers).toContain(`"code": "${code}"`);
  }
});

/** Addresses on the Internet and of the reader's own machine are not followed. */
function leadsSomewhere(from: string, target: string): boolean {
  if (/^https?:/.test(target)) return true;
  const [file = '', anchor] = target.split('#');
  const path = file === '' ? from : normalize(join(dirname(from), file));
  if (!existsSync(join(ROOT, path))) return false;
  if (anchor === undefined) return true;
  return statSync(join(ROOT, path)).isFile() && (documents.get(path)?.anchors.has(anchor) ?? false);
}

interface Named {
  readonly name: string;
  readonly exists: boolean;
}

/** `npm run …` of the project; the example's folder has a package of its own. */
function listScripts(text: string): Named[] {
  const scripts = ['dev', 'build', 'preview', 'codegen', ...Object.keys(packageJson.scripts)];
  return [...text.matchAll(/npm run (?:--silent |-s )?([a-z][\w:-]*)/g)].map(([, name]) => ({
    name: `npm run ${name}`,
    exists: scripts.includes(name as string),
  }));
}

/** Files and folders of the project that commands and texts name. */
function listFiles(text: string): Named[] {
  return [
    ...text.matchAll(/(?<![\w/.:])(?:src|test|bench|deploy|scripts|docs|migrations|schema|examples)\/[\w./*-]*/g),
  ].map(([name]) => ({
    name,
    exists:
      name.includes('*') ||
      WRITTEN.has(name) ||
      existsSync(join(ROOT, name)) ||
      ['.ts', '.mjs'].some((end) => existsSync(join(ROOT, name + end))),
  }));
}
