import type { ApolloServerPlugin, GraphQLRequestContextDidResolveOperation } from '@apollo/server';
import { Kind, type OperationDefinitionNode, type TypeNode } from 'graphql';
import { StoreError } from '../errors.js';
import { JsonNumber } from '../json/exact-json.js';
import type { OperationContext } from './context.js';
import { priceOperation } from './cost.js';
import { createDeprecationFinder, type Deprecation } from './deprecations.js';
import { findStoreError, toRequestError } from './format-error.js';
import { listRootFields } from './operation.js';
import type { DocumentNode, GraphQLSchema } from 'graphql';

export interface AdmissionPluginOptions {
  readonly schema: GraphQLSchema;
  readonly maxRootFields: number;
}

/**
 * Admits or refuses each operation as a whole, after Apollo has parsed and validated it and before anything runs.
 */
export function createAdmissionPlugin({
  schema,
  maxRootFields,
}: AdmissionPluginOptions): ApolloServerPlugin<OperationContext> {
  const findDeprecations = createDeprecationFinder(schema);

  return {
    async requestDidStart() {
      return {
        async didResolveOperation(context) {
          try {
            await admit(context);
          } catch (error) {
            const storeError = findStoreError(error);
            throw storeError ? toRequestError(storeError) : error;
          }
        },
      };
    },
  };

  async function admit(context: GraphQLRequestContextDidResolveOperation<OperationContext>): Promise<void> {
    const { operation, document, request, contextValue } = context as typeof context & {
      // Apollo's type promises an operation; at run time an unknown operationName gets this far.
      operation: OperationDefinitionNode | undefined;
    };
    if (operation === undefined) return;
    const { report, turn, visit } = contextValue;
    report.type = operation.operation;
    report.name = operation.name?.value;
    requireServable(document, operation);
    const variables = unwrapNumbers(request.variables ?? {}, operation);
    request.variables = variables;
    const cost = priceOperation({ schema, document, operation, variables });
    if (cost > 0) await visit.requireKey();
    await turn.admit(cost);
    report.cost = cost;
    report.deprecations = findDeprecations(document, operation) satisfies readonly Deprecation[];
  }

  function requireServable(document: DocumentNode, operation: OperationDefinitionNode): void {
    if (schema.getRootType(operation.operation) == null) {
      throw new StoreError('bad_request', `The schema has no ${operation.operation}s.`);
    }
    const count = listRootFields(document, operation).length;
    if (count > maxRootFields) {
      throw new StoreError('bad_request', `An operation may have ${maxRootFields} root fields; this one has ${count}.`);
    }
  }
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
