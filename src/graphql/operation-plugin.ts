import type {
  ApolloServerPlugin,
  GraphQLRequestContextDidResolveOperation,
  GraphQLRequestContextResponseForOperation,
  GraphQLResponse,
} from '@apollo/server';
import { HeaderMap } from '@apollo/server';
import {
  GraphQLError,
  Kind,
  type DocumentNode,
  type GraphQLSchema,
  type OperationDefinitionNode,
  type TypeNode,
} from 'graphql';
import { StoreError, toStoreError } from '../errors.js';
import { JsonNumber } from '../json/exact-json.js';
import { admitCompiled, admitOperation } from './admit.js';
import { compileOperation, type CompiledOperation } from './compiled/compile.js';
import { runOperation } from './compiled/run.js';
import type { OperationContext } from './context.js';
import { priceOperation } from './cost.js';
import { createDeprecationFinder } from './deprecations.js';
import { findStoreError, isUnforeseen, toRequestError } from './format-error.js';
import type { KnownDocuments } from './known-documents.js';

export interface OperationPluginOptions {
  readonly schema: GraphQLSchema;
  readonly documents: KnownDocuments;
}

/**
 * Takes over from Apollo once it has parsed and validated an operation: compiles it, has it admitted or refused as a whole,
 * and runs it. What cannot be compiled is admitted here too, and then executed by graphql-js.
 */
export function createOperationPlugin({
  schema,
  documents,
}: OperationPluginOptions): ApolloServerPlugin<OperationContext> {
  const findDeprecations = createDeprecationFinder(schema);

  return {
    async requestDidStart() {
      return {
        didResolveOperation: (context) => admit(context).catch(rethrow),
        responseForOperation: run,
        async didEncounterErrors({ errors, contextValue: { report } }) {
          for (const error of errors) {
            const failure = isUnforeseen(error) ? toStoreError(error.originalError ?? error) : findStoreError(error);
            if (failure) report.failures.push(failure);
          }
        },
      };
    },
  };

  async function admit(context: GraphQLRequestContextDidResolveOperation<OperationContext>): Promise<void> {
    const { operation, document, request, contextValue, source } = context as typeof context & {
      // Apollo's type promises an operation; at run time an unknown operationName gets this far.
      operation: OperationDefinitionNode | undefined;
    };
    if (operation === undefined) return;
    requireServable(operation);
    const compiled = findCompiled(source, request.operationName, document, operation);
    if (compiled) {
      contextValue.report.prepared = await admitCompiled(compiled, request.variables, contextValue);
      if (contextValue.report.prepared) return;
    }
    const variables = unwrapNumbers(request.variables ?? {}, operation);
    request.variables = variables;
    await admitOperation(
      {
        type: operation.operation,
        name: operation.name?.value,
        deprecations: findDeprecations(document, operation),
      },
      priceOperation({ schema, document, operation, variables }),
      contextValue,
    );
  }

  async function run({
    contextValue,
  }: GraphQLRequestContextResponseForOperation<OperationContext>): Promise<GraphQLResponse | null> {
    const { report } = contextValue;
    if (!report.prepared) return null;
    report.executed = await runOperation(report.prepared, contextValue);
    // The handler answers with the text that was written; Apollo is only told that there is an answer.
    return { http: { headers: new HeaderMap() }, body: { kind: 'single', singleResult: { data: {} } } };
  }

  function findCompiled(
    text: string,
    operationName: string | undefined,
    document: DocumentNode,
    operation: OperationDefinitionNode,
  ): CompiledOperation | null {
    const known = documents.find(text)?.operations.get(operationName);
    if (known !== undefined) return known;
    const deprecations = findDeprecations(document, operation);
    const compiled = compileOperation({ schema, document, operation, deprecations }) ?? null;
    documents.rememberOperation(text, operationName, compiled);
    return compiled;
  }

  function requireServable(operation: OperationDefinitionNode): void {
    if (schema.getRootType(operation.operation) == null) {
      throw new StoreError('bad_request', `The schema has no ${operation.operation}s.`);
    }
  }
}

function rethrow(error: unknown): never {
  const storeError = findStoreError(error);
  if (storeError) throw toRequestError(storeError);
  // What graphql-js says of a directive's argument while the operation is priced: null through a nullable variable.
  if (error instanceof GraphQLError && error.nodes)
    throw toRequestError(new StoreError('invalid_request', error.message), error.nodes);
  throw error;
}

/** Numbers that were kept as written are for IDs and input objects; the other scalars want plain JavaScript numbers. */
function unwrapNumbers(
  variables: Record<string, unknown>,
  operation: OperationDefinitionNode,
): Record<string, unknown> {
  const plain = Object.entries(variables).map(([name, value]) => {
    if (!(value instanceof JsonNumber)) return [name, value];
    const definition = operation.variableDefinitions?.find(({ variable }) => variable.name.value === name);
    return [name, definition && nameOf(definition.type) === 'ID' ? value : Number(value.text)];
  });
  return Object.fromEntries(plain) as Record<string, unknown>;
}

function nameOf(type: TypeNode): string {
  return type.kind === Kind.NAMED_TYPE ? type.name.value : nameOf(type.type);
}
