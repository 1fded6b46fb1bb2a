import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './markdown.js';

/** The documents whose every block is run. */
export function listGuides(): string[] {
  const docs = readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md'));
  const examples = readdirSync(join(ROOT, 'examples')).map((name) => `examples/${name}/README.md`);
  return [
    'README.md',
    'packages/client/README.md',
    ...docs.map((name) => `docs/${name}`),
    ...examples.filter((path) => existsSync(join(ROOT, path))),
  ];
}

/** All documents of the project: their links have to lead somewhere. */
export function listDocuments(): string[] {
  return [...listGuides(), 'CHANGELOG.md', 'CONTRIBUTING.md', 'bench/README.md'];
}
