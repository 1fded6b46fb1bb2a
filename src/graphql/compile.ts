import {
  execute,
  visit,
  Kind,
  type DocumentNode,
  type FieldNode,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLSchema,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import { collectFields } from 'graphql/execution/collectFields.js';
import { compileArguments, type ArgumentMaker } from './arguments.js';
import type { OperationContext } from './context.js';
import { listOperations, toFragments, type DocumentText } from './document.js';
import { PRICES, priceOfMetaField, type Price } from './prices.js';
import { nameOf, type CompiledVariables, type Variables, type VariableValues } from './variables.js';
import { createWriterCompiler, type CompiledWriter } from './write.js';

/** What a resolver is told about its field. */
export interface FieldInfo {
  readonly fieldName: string;
  /** The field's index among the root fields of its name, in the order in which they run. */
  readonly position: number;
}

/** A root field of a compiled operation. */
export interface RootField extends CompiledWriter {
  readonly responseKey: string;
  /** Where the field stands in the text, for errors: the offset of each of its selections. */
  readonly starts: readonly number[];
  readonly toArguments: ArgumentMaker;
  /** @throws StoreError when the field's own rules refuse its arguments */
  readonly toPrice: (args: Readonly<Variables>) => Price;
  /** Calls the field's resolver. */
  readonly resolve: (args: Readonly<Variables>, context: OperationContext) => unknown;
}

export interface OperationToCompile {
  readonly schema: GraphQLSchema;
  readonly document: DocumentNode;
  readonly operation: OperationDefinitionNode;
  readonly variables: CompiledVariables;
}

/**
 * Compiles the root fields of a validated operation, in response order, as `@skip` and `@include` leave them.
 * @param values - the variables; of these, only the conditions are compiled in
 * @throws GraphQLError when a condition is null
 */
export function compileFields(
  { schema, document, operation, variables }: OperationToCompile,
  values: VariableValues,
): readonly RootField[] {
  const rootType = schema.getRootType(operation.operation) as GraphQLObjectType;
  const fragments = toFragments(document);
  const conditions = variables.toRecord(values);
  const compileWriter = createWriterCompiler({ schema, fragments, conditions });
  const positions = new Map<string, number>();
  const roots = collectFields(schema, fragments, conditions, rootType, operation.selectionSet);
  return [...roots].map(([responseKey, nodes]) => {
    const place = { responseKey, starts: nodes.map(({ loc }) => loc?.start ?? 0) };
    const [node] = nodes as [FieldNode];
    const fieldName = node.name.value;
    if (fieldName === '__typename') return { ...place, ...toTypename(rootType.name) };
    if (fieldName.startsWith('__')) {
      return { ...place, ...toIntrospection(schema, operation.name?.value, responseKey, variables) };
    }
    const definition = rootType.getFields()[fieldName] as GraphQLField<unknown, unknown>;
    const position = positions.get(fieldName) ?? 0;
    positions.set(fieldName, position + 1);
    return {
      ...place,
      toArguments: compileArguments(definition, node, variables),
      toPrice: PRICES[fieldName as keyof typeof PRICES] as RootField['toPrice'],
      resolve: bindResolver(definition, { fieldName, position }),
      ...compileWriter(definition.type, nodes),
    };
  });
}

type FieldParts = Omit<RootField, 'responseKey' | 'starts'>;

// Functions of their own, so that compiled fields keep nothing of the document: thousands of them are kept.

function toTypename(typeName: string): FieldParts {
  return {
    toArguments: () => ({}),
    toPrice: priceOfMetaField,
    resolve: () => typeName,
    write: JSON.stringify,
    valueCount: 1,
  };
}

function toIntrospection(
  schema: GraphQLSchema,
  operationName: string | undefined,
  responseKey: string,
  { toRecord }: CompiledVariables,
): FieldParts {
  return {
    toArguments: (values, text) => ({ text, variableValues: toRecord(values) }),
    toPrice: priceOfMetaField,
    resolve: (args) => introspect(schema, operationName, responseKey, args as unknown as Introspection),
    write: JSON.stringify,
    valueCount: 1,
  };
}

function bindResolver({ name, resolve }: GraphQLField<unknown, unknown>, info: FieldInfo): RootField['resolve'] {
  if (!resolve) throw new Error(`the root field ${name} has no resolver`);
  return (args, context) => resolve(undefined, args, context, info as never);
}

interface Introspection {
  readonly text: DocumentText;
  readonly variableValues: Variables;
}

/** Has graphql-js answer one introspection field of an operation, as if it were the only one. */
async function introspect(
  schema: GraphQLSchema,
  operationName: string | undefined,
  responseKey: string,
  { text: { document }, variableValues }: Introspection,
): Promise<unknown> {
  const operation = listOperations(document).find(
    ({ name }) => name?.value === operationName,
  ) as OperationDefinitionNode;
  const rootType = schema.getRootType(operation.operation) as GraphQLObjectType;
  const fragments = toFragments(document);
  const fields = collectFields(schema, fragments, variableValues, rootType, operation.selectionSet);
  const selectionSet: SelectionSetNode = { kind: Kind.SELECTION_SET, selections: fields.get(responseKey) ?? [] };
  // The others have been coerced, which graphql-js would do again.
  const variableDefinitions = operation.variableDefinitions?.filter(({ type }) =>
    ['String', 'Boolean'].includes(nameOf(type)),
  );
  const definitions = [{ ...operation, selectionSet, variableDefinitions }, ...Object.values(fragments)];
  const { data, errors } = await execute({ schema, document: { kind: Kind.DOCUMENT, definitions }, variableValues });
  if (errors?.[0]) throw errors[0];
  return data?.[responseKey];
}

/** The variables that `@skip` and `@include` look at, by index. */
export function findConditions(
  { document, operation }: Pick<OperationToCompile, 'document' | 'operation'>,
  variables: CompiledVariables,
): readonly number[] {
  const found = new Set<number>();
  // A fragment that the operation does not use may have a variable of the same name with any type.
  const booleans = operation.variableDefinitions?.filter(({ type }) => nameOf(type) === 'Boolean') ?? [];
  const names = new Set(booleans.map(({ variable }) => variable.name.value));
  for (const definition of [operation, ...Object.values(toFragments(document))]) {
    visit(definition, {
      [Kind.DIRECTIVE]: ({ arguments: [condition] = [] }) => {
        if (condition?.value.kind !== Kind.VARIABLE) return;
        const name = condition.value.name.value;
        if (names.has(name)) found.add(variables.names.indexOf(name));
      },
    });
  }
  return [...found].sort((a, b) => a - b);
}
