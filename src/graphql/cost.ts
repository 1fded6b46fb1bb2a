import {
  getArgumentValues,
  getVariableValues,
  type DocumentNode,
  type FieldNode,
  type GraphQLObjectType,
  type GraphQLSchema,
  type OperationDefinitionNode,
} from 'graphql';
import { collectFields } from 'graphql/execution/collectFields.js';
import { toNewPet, toPetId, toPetQuery } from './field-arguments.js';
import type { MutationAddPetArgs, QueryPetArgs, QueryPetsArgs, RequireFields } from './generated/resolver-types.js';
import { toFragments } from './operation.js';

export interface OperationToPrice {
  readonly schema: GraphQLSchema;
  readonly document: DocumentNode;
  readonly operation: OperationDefinitionNode;
  readonly variables: Readonly<Record<string, unknown>>;
}

/**
 * What an operation costs: the requests that it would take over REST.
 *
 * Equal query fields, with the same arguments after coercion and defaults, are one request; every addPet is one. A field
 * whose arguments will be refused is never asked of the store and costs nothing, and so does an operation whose variables
 * will be.
 */
export function priceOperation({ schema, document, operation, variables }: OperationToPrice): number {
  const { coerced } = getVariableValues(schema, operation.variableDefinitions ?? [], variables);
  const rootType = schema.getRootType(operation.operation);
  if (coerced === undefined || rootType == null) return 0;
  const fields = collectFields(schema, toFragments(document), coerced, rootType, operation.selectionSet);
  const requests = new Set<string>();
  for (const [responseKey, [field]] of fields) {
    const request = field && toRequest(rootType, field, coerced, responseKey);
    if (request !== undefined) requests.add(request);
  }
  return requests.size;
}

/** Names the request that a root field is: equal names are one request, undefined is none. */
function toRequest(
  rootType: GraphQLObjectType,
  field: FieldNode,
  variables: Record<string, unknown>,
  responseKey: string,
): string | undefined {
  const definition = rootType.getFields()[field.name.value];
  if (definition === undefined) return undefined;
  try {
    const args: unknown = getArgumentValues(definition, field, variables);
    switch (definition.name) {
      case 'pets': {
        const { limit, status } = toPetQuery(args as RequireFields<QueryPetsArgs, 'limit'>);
        return `pets ${limit} ${status ?? ''}`;
      }
      case 'pet':
        return `pet ${toPetId(args as QueryPetArgs)}`;
      case 'addPet':
        toNewPet(args as MutationAddPetArgs);
        return `addPet ${responseKey}`;
      default:
        return undefined;
    }
  } catch {
    return undefined;
  }
}
