export const FIRST_DOCUMENT = '/docs/README';

export interface DescribedServer {
  readonly version: string;
  /** True for a store, which also serves REST. */
  readonly isStore: boolean;
  readonly hasSchema: boolean;
  readonly newKeyCommand: string;
}

/** Describes the server at `GET /`: to browsers as a page, to other clients as JSON. */
export function describeServer({ version, isStore, hasSchema, newKeyCommand }: DescribedServer) {
  const links = [
    link('explorer', '/explorer', 'Explorer', 'Write and run GraphQL operations, with the documentation beside them.'),
    link('graphql', '/graphql', 'Apollo Sandbox', "Apollo's explorer, which a browser loads from Apollo's servers."),
    isStore && link('reference', '/reference', 'REST reference', 'Every REST operation, with examples to try.'),
    isStore && link('openapi', '/v1/openapi.json', 'OpenAPI document', 'The REST interface for code generators.'),
    hasSchema && link('schema', '/schema.graphql', 'GraphQL schema', 'The schema for code generators and editors.'),
    link('health', '/readyz', 'Health', 'Whether the server can answer requests.'),
    link('documentation', FIRST_DOCUMENT, 'Documentation', 'Guides, limits, errors, clients and operation.'),
  ];
  return {
    name: 'Animal store gateway',
    version,
    kind: isStore ? 'store' : 'gateway',
    description: isStore
      ? 'This server is an animal store. It serves the same animals over GraphQL and REST.'
      : 'This server is a gateway. It serves the animals of another store over GraphQL.',
    // The keys of a gateway belong to the store behind it.
    newKeyCommand: isStore ? newKeyCommand : undefined,
    links: links.filter((one) => one !== false),
  };
}

function link(rel: string, href: string, title: string, description: string) {
  return { rel, href, title, description };
}

/** Fills in the front page that the build made. Links on this server become relative, so that a path prefix works. */
export function renderFrontPage(
  html: string,
  { version, description, newKeyCommand, links }: ReturnType<typeof describeServer>,
): string {
  const items = links.map(
    ({ href, title, description: text }) =>
      `<li><a href="${href.replace(/^\//, '')}">${title}</a><span>${text}</span></li>`,
  );
  const keyHint =
    newKeyCommand === undefined
      ? 'Keys come from the store behind this gateway.'
      : `In development, a new embedded store prints its keys. To create a key: <code>${newKeyCommand}</code>`;
  const parts: Readonly<Record<string, string>> = { version, description, keyHint, links: items.join('\n') };
  return html.replace(/\{\{(\w+)\}\}/g, (_, name: string) => parts[name] ?? '');
}
