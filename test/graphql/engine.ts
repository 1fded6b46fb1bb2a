import pino from 'pino';
import type { Session } from '../../src/access/session.js';
import { startApollo } from '../../src/graphql/apollo.js';
import { openDocuments } from '../../src/graphql/documents.js';
import { createExecute } from '../../src/graphql/execute.js';
import { createPrepare } from '../../src/graphql/prepare.js';
import type { OperationRequest } from '../../src/graphql/types.js';
import { createSchema } from '../../src/graphql/resolvers.js';
import type { HttpRequest } from '../../src/http/request.js';
import type { PetSource } from '../../src/pets/pet-source.js';

export interface EngineError {
  readonly message: string;
  readonly path?: readonly (string | number)[];
  readonly locations?: readonly { readonly line: number; readonly column: number }[];
  readonly extensions: { readonly code: string };
}

export interface EngineResult {
  readonly data?: Record<string, unknown> | null;
  readonly errors?: readonly EngineError[];
}

export interface EngineOptions {
  readonly introspection?: boolean;
  readonly maxResponseBytes?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Starts the GraphQL part of the program on a source of the test's own. */
export async function startEngine(source: PetSource, options: EngineOptions = {}) {
  const { introspection = true, maxResponseBytes = 8_388_608, headers = {} } = options;
  const schema = createSchema();
  const log = pino({ level: 'silent' });
  const limits = { maxRootFields: 100, maxResponseBytes, maxBatch: 20, maxBodyBytes: 1_048_576 };
  const config = { introspection, explorer: false, production: false, limits };
  const apollo = await startApollo(schema, config, log);
  const { check, stop } = apollo;
  const documents = await openDocuments({ count: () => undefined, check, log });
  const guardRateLimit = () => Promise.resolve();
  const execute = createExecute(createPrepare(schema, apollo, documents), source, guardRateLimit, limits);
  const session: Session = {
    keyId: 'key_test',
    isKeyRefused: false,
    requireKey: () => undefined,
    admit: () => undefined,
    explain: (error) => error,
    allowance: () => ({ plan: 'free', windows: [] }),
    close: () => undefined,
  };

  return {
    /** Executes operations as one HTTP request with a body of some bytes. Returns the bodies of the responses. */
    async execute(requests: readonly Partial<OperationRequest>[], bytes = 100): Promise<readonly string[]> {
      const context = {
        method: 'POST',
        caller: 'test',
        requestId: 'test',
        body: Buffer.alloc(bytes),
        header: (name: string) => headers[name],
        redact: (text: string) => text,
      } as unknown as HttpRequest;
      const { answers } = await execute(requests as readonly OperationRequest[], context, session);
      return answers.map(({ response }) => response.body);
    },
    async run(query: string, variables: Record<string, unknown> = {}): Promise<EngineResult> {
      const [body] = await this.execute([{ query, variables }]);
      return JSON.parse(body as string) as EngineResult;
    },
    stop,
  };
}

export type Engine = Awaited<ReturnType<typeof startEngine>>;
