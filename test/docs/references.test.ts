import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';
import { STORE_ERRORS } from '../../packages/client/src/errors.js';
import { SETTINGS } from '../../src/config.js';
import { linesOf } from '../support/process.js';
import { listGuides, readDocument, ROOT, type Document } from './markdown.js';
import packageJson from '../../package.json' with { type: 'json' };

const guides = listGuides();
const paths = [...guides, 'CHANGELOG.md', 'CONTRIBUTING.md', 'bench/README.md'];
const documents = new Map(paths.map((path) => [path, readDocument(path)]));

/** Variables in documents that are not settings of the program. */
const OTHER_VARIABLES = new Set([
  // Tests and CI.
  ...['CI', 'TEST_REDIS_URL', 'CHROMIUM_PATH', 'HOSTILE_INPUTS', 'INT64_IDS', 'BENCH_DATABASE_URL'],
  // Read by OpenTelemetry's packages.
  ...[
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    'OTEL_SERVICE_NAME',
    'OTEL_NODE_ENABLED_INSTRUMENTATIONS',
    'OTEL_NODE_RESOURCE_DETECTORS',
    'OTEL_TRACES_SAMPLER',
  ],
  ...['OTEL_TRACES_SAMPLER_ARG', 'OTEL_METRICS_EXPORTER', 'OTEL_LOGS_EXPORTER', 'NODE_OPTIONS'],
  // Examples, the image build and shell commands.
  ...['STORE_KEY', 'STORE_URL', 'VITE_STORE_URL', 'VITE_TRUSTED_DOCUMENTS', 'KEY', 'ID', 'NAME'],
  // A misspelt setting, and settings of earlier versions.
  ...['DATABSE_URL', 'COMPRESSION', 'TRUST_TRACEPARENT'],
]);
const KNOWN = new Set(SETTINGS);
const ASSIGNED = /(?:^|\s|`|export )([A-Z][A-Z0-9_]*)=/gm;
const NAMED = /^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*$/;

/** Matches of NAMED that are not variables: error codes, statuses, and words of GraphQL, SQL, HTTP and Redis. */
const NO_VARIABLES = new Set([
  ...Object.keys(STORE_ERRORS),
  ...['FILE', 'UNRECOGNIZED', 'CONNECTION_FAILED', 'TIMED_OUT'],
  ...[
    'AVAILABLE',
    'PENDING',
    'SOLD',
    'GET',
    'POST',
    'QUERY',
    'INSERT',
    'FLUSHALL',
    'SET',
    'LISTEN',
    'ID',
    'KEY_ID',
    'DIGEST',
    'NULL',
  ],
]);

/** Folders that commands create. */
const WRITTEN = new Set(['src/gql/', 'deploy/secrets', 'test/browser/screenshots/']);

describe.each([...documents.values()])('$path', ({ path, links, codes, blocks }) => {
  const place = ({ line, text }: { line: number; text: string }): string => `${path}:${line} ${text}`;

  it('has no broken links', () => {
    expect(links.filter(({ text }) => !leadsSomewhere(path, text)).map(place)).toEqual([]);
  });

  it('names only settings that exist', () => {
    const assigned = [...codes, ...blocks].flatMap(({ line, text }) =>
      [...text.matchAll(ASSIGNED)].map(([, name]) => ({ line, text: name as string })),
    );
    const named = codes.filter(({ text }) => NAMED.test(text) && !NO_VARIABLES.has(text));
    const unknown = [...assigned, ...named].filter(({ text }) => !KNOWN.has(text) && !OTHER_VARIABLES.has(text));
    expect(unknown.map(place)).toEqual([]);
  });

  it('names only scripts and files that exist', () => {
    const wrong = [...codes, ...blocks].flatMap(({ line, text }) =>
      [...listMissingScripts(text), ...listMissingFiles(text)].map((name) => ({ line, text: name })),
    );
    expect(wrong.map(place)).toEqual([]);
  });
});

it('documents every setting in docs/settings.md', () => {
  const { codes } = documents.get('docs/settings.md') as Document;
  const named = new Set(codes.map(({ text }) => text));
  expect(SETTINGS.filter((name) => !named.has(name))).toEqual([]);
});

it('links every guide from the README', () => {
  const { links } = documents.get('README.md') as Document;
  const targets = links.map(({ text }) => text.replace(/#.*/, ''));
  const folders = targets.map((target) => `${target}/README.md`);
  expect(guides.filter((path) => path !== 'README.md' && ![...targets, ...folders].includes(path))).toEqual([]);
});

it('keeps the README at 120 lines', () => {
  expect(linesOf(readFileSync(join(ROOT, 'README.md'), 'utf8')).length).toBeLessThanOrEqual(120);
});

it('shows every error code with a response in the guide', () => {
  const { anchors, blocks } = documents.get('docs/graphql.md') as Document;
  const answers = blocks.map(({ text }) => text).join('');
  for (const code of Object.keys(STORE_ERRORS)) {
    expect(anchors).toContain(code.toLowerCase());
    expect(answers).toContain(`"code": "${code}"`);
  }
});

/** Counts http and https addresses as valid, without following them. */
function leadsSomewhere(from: string, target: string): boolean {
  if (/^https?:/.test(target)) return true;
  const [file = '', anchor] = target.split('#');
  const path = file === '' ? from : normalize(join(dirname(from), file));
  if (!existsSync(join(ROOT, path))) return false;
  if (anchor === undefined) return true;
  return statSync(join(ROOT, path)).isFile() && (documents.get(path)?.anchors.has(anchor) ?? false);
}

/** Finds unknown scripts in `npm run …`, of the project or of the example, which has its own package. */
function listMissingScripts(text: string): string[] {
  const scripts = ['dev', 'build', 'preview', 'codegen', 'manifest', ...Object.keys(packageJson.scripts)];
  const named = [...text.matchAll(/npm run (?:--silent |-s )?([a-z][\w:-]*)/g)].map(([, name]) => name as string);
  return named.filter((name) => !scripts.includes(name));
}

/** Finds missing files and folders of the project that a text names. */
function listMissingFiles(text: string): string[] {
  const names = text.match(/(?<![\w/.:])(?:src|test|bench|deploy|scripts|docs|migrations|schema|examples)\/[\w./*-]*/g);
  const exists = (name: string): boolean => ['', '.ts', '.mjs'].some((end) => existsSync(join(ROOT, name + end)));
  return (names ?? []).filter((name) => !name.includes('*') && !WRITTEN.has(name) && !exists(name));
}
