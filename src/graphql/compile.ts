import {
  execute,
  getNamedType,
  Kind,
  typeFromAST,
  visit,
  type DocumentNode,
  type ExecutionArgs,
  type FieldNode,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLSchema,
  type OperationDefinitionNode,
} from 'graphql';
import { collectFields } from 'graphql/execution/collectFields.js';
import { compileArguments, type ArgumentMaker } from './arguments.js';
import { getOperation, toFragments, type DocumentSource } from './document.js';
import { FREE, PRICES, type Price } from './prices.js';
import type { OperationContext } from './run.js';
import type { Variables } from './variables.js';
import { createWriterCompiler, type CompiledWriter } from './write.js';

/** What a resolver is told about its field. */
export interface FieldInfo {
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
  readonly resolve: (args: Readonly<Variables>, context: OperationContext) => unknown;
}

/**
 * Compiles the root fields of a validated operation, in response order, as `@skip` and `@include` leave them.
 * @param variables - of these, only the conditions are compiled in
 * @throws GraphQLError when a condition is null
 */
export function compileFields(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
  variables: Readonly<Variables>,
): readonly RootField[] {
  const rootType = schema.getRootType(operation.operation) as GraphQLObjectType;
  const fragments = toFragments(document);
  const compileWriter = createWriterCompiler(schema, fragments, variables);
  const positions = new Map<string, number>();
  const roots = collectFields(schema, fragments, variables, rootType, operation.selectionSet);
  return [...roots].map(([responseKey, nodes]) => {
    const starts = nodes.map(({ loc }) => loc?.start ?? 0);
    const place = { responseKey, starts };
    const [node] = nodes as [FieldNode];
    const fieldName = node.name.value;
    if (fieldName === '__typename') return { ...place, ...toTypename(rootType.name) };
    if (fieldName.startsWith('__')) {
      return { ...place, ...toIntrospection(schema, operation.name?.value, starts) };
    }
    const definition = rootType.getFields()[fieldName] as GraphQLField<unknown, unknown>;
    const position = positions.get(fieldName) ?? 0;
    positions.set(fieldName, position + 1);
    return {
      ...place,
      toArguments: compileArguments(definition, node),
      toPrice: PRICES[fieldName as keyof typeof PRICES] as RootField['toPrice'],
      resolve: bindResolver(definition, { position }),
      ...compileWriter(definition.type, nodes),
    };
  });
}

type FieldParts = Omit<RootField, 'responseKey' | 'starts'>;

// Functions of their own, so that compiled fields keep nothing of the document: thousands of them are kept.

function toTypename(typeName: string): FieldParts {
  return {
    toArguments: () => ({}),
    toPrice: () => FREE,
    resolve: () => typeName,
    write: JSON.stringify,
    valueCount: 1,
  };
}

function toIntrospection(
  schema: GraphQLSchema,
  operationName: string | undefined,
  starts: readonly number[],
): FieldParts {
  return {
    toArguments: (variableValues, source) => ({
      schema,
      document: toDocumentOfField(schema, source, operationName, starts),
      variableValues,
    }),
    toPrice: () => FREE,
    resolve: (args) => introspect(args as unknown as ExecutionArgs),
    write: JSON.stringify,
    valueCount: 1,
  };
}

function bindResolver({ name, resolve }: GraphQLField<unknown, unknown>, info: FieldInfo): RootField['resolve'] {
  if (!resolve) throw new Error(`the root field ${name} has no resolver`);
  return (args, context) => resolve(undefined, args, context, info as never);
}

/** The document of one introspection field, as if it were the only one of its operation. */
function toDocumentOfField(
  schema: GraphQLSchema,
  source: DocumentSource,
  operationName: string | undefined,
  starts: readonly number[],
): DocumentNode {
  const operation = getOperation(source.document, operationName);
  const selections = starts.map((start) => source.fieldAt(start));
  // The other variables have been coerced, which graphql-js would do again.
  const variableDefinitions = operation.variableDefinitions?.filter(({ type }) =>
    ['String', 'Boolean'].includes(getNamedType(typeFromAST(schema, type))?.name ?? ''),
  );
  const selectionSet = { kind: Kind.SELECTION_SET as const, selections };
  const fragments = source.document.definitions.filter(({ kind }) => kind === Kind.FRAGMENT_DEFINITION);
  return { kind: Kind.DOCUMENT, definitions: [{ ...operation, selectionSet, variableDefinitions }, ...fragments] };
}

async function introspect(args: ExecutionArgs): Promise<unknown> {
  const { data, errors } = await execute(args);
  if (errors?.[0]) throw errors[0];
  return Object.values(data ?? {})[0];
}

/**
 * The names of the variables that `@skip` and `@include` look at, sorted.
 * @param own - the operation with the fragments that it uses
 */
export function findConditions(own: DocumentNode): readonly string[] {
  const found = new Set<string>();
  visit(own, {
    [Kind.DIRECTIVE]: ({ arguments: [condition] = [] }) => {
      if (condition?.value.kind === Kind.VARIABLE) found.add(condition.value.name.value);
    },
  });
  return [...found].sort();
}
