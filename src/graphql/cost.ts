import {
  getArgumentValues,
  getVariableValues,
  type DocumentNode,
  type GraphQLSchema,
  type OperationDefinitionNode,
} from 'graphql';
import { collectFields } from 'graphql/execution/collectFields.js';
import { toFragments } from './operation.js';
import { countRequests, toStep } from './step.js';

export interface OperationToPrice {
  readonly schema: GraphQLSchema;
  readonly document: DocumentNode;
  readonly operation: OperationDefinitionNode;
  readonly variables: Readonly<Record<string, unknown>>;
}

/**
 * What an operation costs that has not been compiled: the requests that it would take over REST. One whose variables will be
 * refused costs nothing.
 */
export function priceOperation({ schema, document, operation, variables }: OperationToPrice): number {
  const { coerced } = getVariableValues(schema, operation.variableDefinitions ?? [], variables);
  const rootType = schema.getRootType(operation.operation);
  if (coerced === undefined || rootType == null) return 0;
  const fields = collectFields(schema, toFragments(document), coerced, rootType, operation.selectionSet);
  const steps = [...fields.values()].flatMap(([field]) => {
    const kind = field?.name.value;
    const definition = kind === undefined ? undefined : rootType.getFields()[kind];
    if (!field || !definition || (kind !== 'pets' && kind !== 'pet' && kind !== 'addPet')) return [];
    return [toStep(kind, (variables) => getArgumentValues(definition, field, variables), coerced)];
  });
  return countRequests(steps);
}
