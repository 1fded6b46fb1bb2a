import pino from 'pino';
import type { Session } from '../../src/access/session.js';
import { startApollo } from '../../src/graphql/apollo.js';
import { createErrorFormatter } from '../../src/graphql/errors.js';
import { createExecute } from '../../src/graphql/execute.js';
import { createDocumentBudget, toDocumentLimits } from '../../src/graphql/limits.js';
import { createPrepare } from '../../src/graphql/prepare.js';
import type { OperationRequest } from '../../src/graphql/types.js';
import { createSchema } from '../../src/graphql/resolvers.js';
import { createPersistedQueries, createTrustedDocuments } from '../../src/graphql/trusted.js';
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
  const errors = createErrorFormatter(!introspection);
  const limits = toDocumentLimits(100);
  const trusted = createTrustedDocuments({ others: 'allowed', count: () => undefined });
  const log = pino({ level: 'silent' });
  const config = { introspection, explorer: false, production: false };
  const { check, stop } = await startApollo({ schema, config, limits, errors, log });
  const prepare = createPrepare({ schema, check, trusted, errors, budget: createDocumentBudget() });
  const persisted = createPersistedQueries();
  const guardRateLimit = () => Promise.resolve();
  const asked = { maxRootFields: 100, maxResponseBytes };
  const execute = createExecute({ prepare, trusted, persisted, source, guardRateLimit, limits: asked });
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
    /** Executes operations as one HTTP request. Returns the bodies of the responses. */
    async execute(requests: readonly Partial<OperationRequest>[]): Promise<readonly string[]> {
      const context = {
        method: 'POST',
        caller: 'test',
        requestId: 'test',
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
