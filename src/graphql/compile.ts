import {
  execute,
  getArgumentValues,
  getNamedType,
  isNonNullType,
  Kind,
  OperationTypeNode,
  parseValue,
  print,
  separateOperations,
  typeFromAST,
  TypeInfo,
  valueFromAST,
  visit,
  visitWithTypeInfo,
  type DocumentNode,
  type ExecutionArgs,
  type FieldNode,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLSchema,
  type ValueNode,
} from 'graphql';
import { collectFields } from 'graphql/execution/collectFields.js';
import { StoreError } from '../errors.js';
import { LOOKUP_SUNSET } from '../pets/pet.js';
import { getOperation, toFragments, type DocumentSource } from './document.js';
import type { Deprecation, PreparedOperation } from './prepared-documents.js';
import { FREE, PRICES, type Price } from './prices.js';
import type { OperationContext } from './run.js';
import { readVariableDefinitions, type Variables } from './variables.js';
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
  /**
   * @param source - for graphql-js, which words the errors
   * @throws GraphQLError when an argument is missing or null that must not be
   */
  readonly toArguments: (variables: Readonly<Variables>, source: DocumentSource) => Readonly<Variables>;
  /** @throws StoreError when the field's own rules refuse its arguments */
  readonly toPrice: (args: Readonly<Variables>) => Price;
  readonly resolve: (args: Readonly<Variables>, context: OperationContext) => unknown;
}

/**
 * Compiles an operation of a validated document, without its root fields.
 * @throws StoreError `unprocessable_request` when the schema has no such operations
 */
export function compileOperation(
  schema: GraphQLSchema,
  document: DocumentNode,
  name: string | undefined,
  isPinned: boolean,
): PreparedOperation {
  const own = separateOperations(document)[name ?? ''] as DocumentNode;
  const node = getOperation(own, name);
  const { operation: type } = node;
  if (type === OperationTypeNode.SUBSCRIPTION || schema.getRootType(type) == null) {
    throw new StoreError('unprocessable_request', `The schema has no ${type}s.`);
  }
  return {
    type,
    name,
    isPinned,
    variables: readVariableDefinitions(schema, node),
    deprecations: findDeprecations(schema, own),
    conditions: findConditions(own),
    fields: new Map(),
  };
}

/** The days on which deprecated fields will be removed. SDL has no place for them. */
const SUNSETS: Readonly<Record<string, Date>> = { 'Query.pet': LOOKUP_SUNSET };

/** Finds the deprecated fields that an operation uses, each once. */
function findDeprecations(schema: GraphQLSchema, own: DocumentNode): readonly Deprecation[] {
  const found = new Map<string, Deprecation>();
  const typeInfo = new TypeInfo(schema);
  visit(
    own,
    visitWithTypeInfo(typeInfo, {
      Field() {
        const parent = typeInfo.getParentType();
        const field = typeInfo.getFieldDef();
        if (parent == null || field?.deprecationReason == null) return;
        const coordinate = `${getNamedType(parent).name}.${field.name}`;
        const sunset = SUNSETS[coordinate]?.toISOString().slice(0, 10);
        found.set(coordinate, { coordinate, reason: field.deprecationReason, sunset });
      },
    }),
  );
  return [...found.values()];
}

/** The names of the variables that `@skip` and `@include` look at, sorted. */
function findConditions(own: DocumentNode): readonly string[] {
  const found = new Set<string>();
  visit(own, {
    [Kind.DIRECTIVE]: ({ arguments: [condition] = [] }) => {
      if (condition?.value.kind === Kind.VARIABLE) found.add(condition.value.name.value);
    },
  });
  return [...found].sort();
}

/**
 * Compiles the root fields of an operation of a validated document, in response order, as `@skip` and `@include` leave
 * them.
 * @param variables - of these, only the conditions are compiled in
 * @throws GraphQLError when a condition is null
 */
export function compileFields(
  schema: GraphQLSchema,
  document: DocumentNode,
  operationName: string | undefined,
  variables: Readonly<Variables>,
): readonly RootField[] {
  const operation = getOperation(document, operationName);
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
    if (fieldName.startsWith('__')) return { ...place, ...toIntrospection(schema, operationName, starts) };
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

/**
 * Compiles the arguments of a field of a valid document: without variables, they are made once. With variables,
 * `getArgumentValues` of graphql-js would do the same with the parsed document, but takes twenty times as long, and a
 * fifth of a request for 50 lookups.
 */
function compileArguments(definition: GraphQLField<unknown, unknown>, node: FieldNode): RootField['toArguments'] {
  const texts = new Map(node.arguments?.map(({ name, value }) => [name.value, print(value)]));
  if (![...texts.values()].some((text) => text.includes('$'))) return toConstant(getArgumentValues(definition, node));
  // Parsed again without locations, by which a value would keep the whole document.
  const values = new Map([...texts].map(([name, text]) => [name, parseValue(text, { noLocation: true })]));
  return toArgumentMaker(definition, values, node.loc?.start ?? 0);
}

// What returns functions is a function of its own, so that they keep nothing of the document: thousands are kept.

function toConstant(args: Readonly<Variables>): RootField['toArguments'] {
  return () => args;
}

function toArgumentMaker(
  definition: GraphQLField<unknown, unknown>,
  values: ReadonlyMap<string, ValueNode>,
  start: number,
): RootField['toArguments'] {
  return (variables, source) => {
    const made: Variables = {};
    for (const { name, type, defaultValue } of definition.args) {
      const node = values.get(name);
      const isAbsent = !node || (node.kind === Kind.VARIABLE && !Object.hasOwn(variables, node.name.value));
      const value = isAbsent ? defaultValue : valueFromAST(node, type, variables);
      if (value !== undefined) made[name] = value;
      else if (!isAbsent || isNonNullType(type)) {
        return getArgumentValues(definition, source.fieldAt(start), variables);
      }
    }
    return made;
  };
}

type FieldParts = Omit<RootField, 'responseKey' | 'starts'>;

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
