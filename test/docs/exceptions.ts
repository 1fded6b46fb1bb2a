/** A command or a block that is not run as it stands. */
export interface Exception {
  readonly document: string;
  /** The command, or the first line of a block that is no shell block. */
  readonly text: string;
  /** What is run in its place; absent: nothing. */
  readonly instead?: string;
  /** Why, and what shows it otherwise. */
  readonly reason: string;
}

const NO_ENGINE =
  'There is no Docker engine: test/deploy holds the files to linters and schemas, deploy/rehearse.mjs follows the Dockerfile.';
const NO_CLUSTER = 'There is no cluster: test/deploy holds the manifests to the schemas of the Kubernetes API.';
const INSTALLS = 'Run by test/docs/cold-start.test.ts, in a copy of the project as a stranger has it.';
const FRONTEND = 'Run by test/browser/frontend-example.test.ts, which opens the page in Chromium.';
const PACKAGE = 'Run by test/package/pack.test.ts with the tarball: the package is not published.';

/** Every block that the runner leaves out or changes. It fails on those that no document has any more. */
export const EXCEPTIONS: readonly Exception[] = [
  { document: 'README.md', text: 'npm ci && npm start', instead: 'npm start', reason: INSTALLS },
  { document: 'docs/getting-started.md', text: 'npm ci && npm start', instead: 'npm start', reason: INSTALLS },
  { document: 'docs/clients.md', text: 'npm install animal-store-gateway', reason: PACKAGE },
  { document: 'packages/client/README.md', text: 'npm install animal-store-client', reason: PACKAGE },
  { document: 'docs/growing.md', text: 'docker build -t animal-store-gateway .', reason: NO_ENGINE },
  {
    document: 'docs/growing.md',
    text: 'docker run -p 4000:4000 -e DATABASE_URL=postgres://… -e REDIS_URL=redis://… --read-only animal-store-gateway',
    reason: NO_ENGINE,
  },
  {
    document: 'docs/growing.md',
    text: 'docker exec CONTAINER node dist/bundle/keys.js create --plan pro',
    reason: NO_ENGINE,
  },
  {
    document: 'docs/growing.md',
    text: 'kubectl create secret generic animal-store --from-literal=DATABASE_URL=postgres://… --from-literal=REDIS_URL=rediss://…',
    reason: NO_CLUSTER,
  },
  { document: 'docs/growing.md', text: 'kubectl apply --kustomize deploy/kubernetes', reason: NO_CLUSTER },
  {
    document: 'docs/operating.md',
    text: '{',
    reason: 'A line of the log: read by test/observability/request-log.test.ts.',
  },
  {
    document: 'docs/tracing.md',
    text: 'docker run --rm -p 16686:16686 -p 4318:4318 jaegertracing/jaeger:latest',
    reason: 'There is no Docker engine: test/tracing has a collector of its own.',
  },
  { document: 'examples/frontend/README.md', text: 'npm ci && npm start', instead: 'npm start', reason: INSTALLS },
  { document: 'examples/frontend/README.md', text: 'npm ci', reason: FRONTEND },
  { document: 'examples/frontend/README.md', text: 'npm run dev', reason: FRONTEND },
];

export function findException(document: string, text: string): Exception | undefined {
  return EXCEPTIONS.find((exception) => exception.document === document && exception.text === text);
}
