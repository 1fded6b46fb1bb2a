import {
  executeSync,
  getNamedType,
  isNonNullType,
  Kind,
  parseValue,
  print,
  valueFromAST,
  type ASTNode,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLArgument,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLSchema,
  type OperationDefinitionNode,
  type SelectionNode,
  type SelectionSetNode,
  type SourceLocation,
  type ValueNode,
} from 'graphql';
import { LOOKUP_SUNSET } from '../pets/pet.js';
import { InvalidArgument, MAX_LOCATIONS, RequestErrors, type ErrorFormatter } from './errors.js';
import { PRICES } from './prices.js';
import { createWriterCompiler } from './write.js';
import type { Variables, Fragments, Compiled, RootField, Deprecation, Price } from './types.js';

/** The days on which deprecated fields will be removed. SDL has no place for them. */
const SUNSETS: Readonly<Record<string, Date>> = { 'Query.pet': LOOKUP_SUNSET };

export interface CompileOptions {
  readonly schema: GraphQLSchema;
  readonly operation: OperationDefinitionNode;
  readonly fragments: Fragments;
  /** Of these, only the conditions are compiled in. */
  readonly variables: Variables;
  readonly errors: ErrorFormatter;
}

export function toFragments({ definitions }: DocumentNode): Fragments {
  return new Map(definitions.flatMap((one) => (one.kind === Kind.FRAGMENT_DEFINITION ? [[one.name.value, one]] : [])));
}

/**
 * Compiles an operation of a valid document.
 * @throws RequestErrors if a condition is null
 */
export function compile(options: CompileOptions): Compiled {
  const { schema, operation, fragments } = options;
  const rootType = schema.getRootType(operation.operation) as GraphQLObjectType;
  const collectBelow = (nodes: readonly FieldNode[]) =>
    collectFields(
      nodes.flatMap(({ selectionSet }) => (selectionSet ? [selectionSet] : [])),
      options,
    );
  const deprecations = new Map<string, Deprecation>();
  const compileWriter = createWriterCompiler(collectBelow, noteDeprecation);

  const isMeta = (nodes: readonly FieldNode[]): boolean => nodes[0]?.name.value.startsWith('__') === true;
  const everything = collectFields([operation.selectionSet], { ...options, variables: undefined });
  const isSchemaOnly = [...everything.values()].every(isMeta);
  const hasIntrospection = [...everything.values()].some((nodes) => isMeta(nodes) && nodes[0]?.selectionSet);
  const fields = [...collectFields([operation.selectionSet], options)].map(compileField);
  return { fields, deprecations: [...deprecations.values()], isSchemaOnly, hasIntrospection };

  function compileField([responseKey, nodes]: readonly [string, readonly FieldNode[]]): RootField {
    const [node] = nodes as [FieldNode];
    const name = node.name.value;
    const place = { responseKey, locations: locate(nodes), statuses: [] };
    if (name === '__typename') return { ...place, ...toFree(() => `"${rootType.name}"`) };
    if (isMeta(nodes)) return { ...place, ...compileIntrospection(schema, operation, nodes, fragments) };
    const definition = rootType.getFields()[name] as GraphQLField<unknown, unknown>;
    const { args, resolve, type } = definition;
    if (!resolve) throw new Error(`the root field ${name} has no resolver`);
    noteDeprecation(rootType, definition);
    const toArguments = compileArguments(args, node);
    const toPrice = PRICES[name as keyof typeof PRICES] as (args: Variables) => Price;
    return {
      ...place,
      ...compileWriter(type, nodes),
      price: (variables) => toPrice(toArguments(variables)),
      resolve: (parsed, context) => resolve(undefined, parsed, context, undefined as never),
      statuses: getNamedType(type).name === 'Pet' ? findStatuses(collectBelow(nodes)) : [],
    };
  }

  function noteDeprecation(parent: GraphQLObjectType, field: GraphQLField<unknown, unknown>): void {
    const { deprecationReason: reason } = field;
    if (reason == null) return;
    const coordinate = `${parent.name}.${field.name}`;
    deprecations.set(coordinate, { coordinate, reason, sunset: SUNSETS[coordinate]?.toISOString().slice(0, 10) });
  }
}

function findStatuses(selected: ReadonlyMap<string, readonly FieldNode[]>): RootField['statuses'] {
  return [...selected].flatMap(([responseKey, nodes]) =>
    nodes[0]?.name.value === 'status' ? [{ responseKey, locations: locate(nodes) }] : [],
  );
}

export function locate(nodes: readonly Pick<ASTNode, 'loc'>[]): readonly SourceLocation[] {
  const tokens = nodes.slice(0, MAX_LOCATIONS).flatMap(({ loc }) => (loc ? [loc.startToken] : []));
  return tokens.map(({ line, column }) => ({ line, column }));
}

/**
 * Collects fields by response key: https://spec.graphql.org/September2026/#CollectFields()
 * The schema has neither interfaces nor unions, so every fragment applies. Without variables, nothing is skipped.
 */
function collectFields(
  sets: readonly SelectionSetNode[],
  { fragments, variables, errors }: Pick<CompileOptions, 'fragments' | 'errors'> & { variables: Variables | undefined },
): ReadonlyMap<string, readonly FieldNode[]> {
  const fields = new Map<string, FieldNode[]>();
  const spread = new Set<string>();
  sets.forEach(collect);
  return fields;

  function collect({ selections }: SelectionSetNode): void {
    for (const selection of selections) {
      if (variables && !isIncluded(selection, variables)) continue;
      if (selection.kind === Kind.FIELD) {
        const key = (selection.alias ?? selection.name).value;
        const others = fields.get(key);
        if (others) others.push(selection);
        else fields.set(key, [selection]);
      } else if (selection.kind === Kind.INLINE_FRAGMENT) collect(selection.selectionSet);
      else if (!spread.has(selection.name.value)) {
        spread.add(selection.name.value);
        collect((fragments.get(selection.name.value) as FragmentDefinitionNode).selectionSet);
      }
    }
  }

  /** https://spec.graphql.org/September2026/#sec--skip */
  function isIncluded({ directives = [] }: SelectionNode, given: Variables): boolean {
    if (directives.length === 0) return true;
    return !readCondition('skip', false) && readCondition('include', true);

    function readCondition(name: string, absent: boolean): boolean {
      const value = directives.find((one) => one.name.value === name)?.arguments?.[0]?.value;
      if (!value) return absent;
      if (value.kind === Kind.BOOLEAN) return value.value;
      const condition = value.kind === Kind.VARIABLE ? given[value.name.value] : undefined;
      if (typeof condition === 'boolean') return condition;
      throw new RequestErrors(422, [errors.variable(`The condition of @${name} must not be null.`, locate([value]))]);
    }
  }
}

type ToArguments = (variables: Variables) => Variables;

interface GivenArgument extends Pick<GraphQLArgument, 'name' | 'type' | 'defaultValue'> {
  /** Without locations, because a location keeps all tokens of the document. */
  readonly node: ValueNode | undefined;
  readonly location: SourceLocation | undefined;
}

/** Without variables, arguments are made once. */
function compileArguments(definitions: readonly GraphQLArgument[], field: FieldNode): ToArguments {
  const given = definitions.map(({ name, type, defaultValue }): GivenArgument => {
    const value = field.arguments?.find((argument) => argument.name.value === name)?.value;
    const node = value && parseValue(print(value), { noLocation: true });
    return { name, type, defaultValue, node, location: locate([value ?? field])[0] };
  });
  // A dollar sign in a string only means that the arguments are made each time.
  const usesVariables = field.arguments?.some(({ value }) => print(value).includes('$'));
  if (usesVariables) return (variables) => toArguments(given, variables);
  const constant = toArguments(given, {});
  return () => constant;
}

/** https://spec.graphql.org/September2026/#CoerceArgumentValues() */
function toArguments(given: readonly GivenArgument[], variables: Variables): Variables {
  const args: Record<string, unknown> = {};
  for (const { name, type, defaultValue, node, location } of given) {
    const isAbsent = !node || (node.kind === Kind.VARIABLE && !Object.hasOwn(variables, node.name.value));
    const value = isAbsent ? defaultValue : valueFromAST(node, type, variables);
    if (value !== undefined) args[name] = value;
    else if (!isAbsent) throw new InvalidArgument(`The value of the argument "${name}" does not fit.`, location);
    else if (isNonNullType(type)) throw new InvalidArgument(`The argument "${name}" is required.`, location);
  }
  return args;
}

type FieldParts = Pick<RootField, 'price' | 'resolve' | 'write' | 'maxBytes'>;

/** The parts of a field that asks the store nothing: its price knows its value. */
function toFree(toJson: (variables: Variables) => string): FieldParts {
  const price = (variables: Variables): Price => {
    const json = toJson(variables);
    return { cost: 0, maxObjects: Buffer.byteLength(json), args: json };
  };
  return { price, resolve: (json) => json, write: String, maxBytes: 1 };
}

/** The types that arguments of introspection have. */
const PLAIN: ReadonlySet<string> = new Set(['String', 'String!', 'Boolean', 'Boolean!']);

/**
 * Compiles an introspection field. graphql-js executes it while the field is priced, so that its length is known before
 * anything runs.
 */
function compileIntrospection(
  schema: GraphQLSchema,
  operation: OperationDefinitionNode,
  selections: readonly FieldNode[],
  fragments: Fragments,
): FieldParts {
  // The other variables have been coerced, which graphql-js would do again.
  const variableDefinitions = operation.variableDefinitions?.filter(({ type }) => PLAIN.has(print(type)));
  const selectionSet: SelectionSetNode = { kind: Kind.SELECTION_SET, selections };
  const definitions = [{ ...operation, selectionSet, variableDefinitions }, ...fragments.values()];
  const document: DocumentNode = { kind: Kind.DOCUMENT, definitions };
  return toFree((variableValues) => {
    const { data, errors } = executeSync({ schema, document, variableValues });
    if (errors) throw new InvalidArgument('An argument of this introspection does not fit.', locate(selections)[0]);
    return JSON.stringify(Object.values(data ?? {})[0] ?? null);
  });
}
