import {
  executeSync,
  getNamedType,
  isNonNullType,
  Kind,
  OperationTypeNode,
  parseValue,
  print,
  valueFromAST,
  visit,
  type ArgumentNode,
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
  type TypeNode,
  type ValueNode,
} from 'graphql';
import { StoreError } from '../errors.js';
import { LOOKUP_SUNSET } from '../pets/pet.js';
import { InvalidArgument, MAX_LOCATIONS, RequestErrors, type ErrorFormatter } from './errors.js';
import { PRICES, type Price } from './prices.js';
import type { OperationContext } from './run.js';
import { createWriterCompiler, type CompiledWriter } from './write.js';

export type Variables = Readonly<Record<string, unknown>>;
/** By name. */
export type Fragments = ReadonlyMap<string, FragmentDefinitionNode>;

/** A root field of a compiled operation. */
export interface RootField extends CompiledWriter {
  readonly responseKey: string;
  /** Where the field stands in the document. */
  readonly locations: readonly SourceLocation[];
  /** Parses the arguments and prices the field. @throws StoreError `invalid_request` */
  readonly price: (variables: Variables) => Price;
  /** @param args - as its price has parsed them */
  readonly resolve: (args: unknown, context: OperationContext) => unknown;
  /** Where an animal's status was selected, if it was. */
  readonly statuses: readonly StatusField[];
}

/** The field `status` of an animal. An upstream may send a status that is not known here. */
export interface StatusField {
  readonly responseKey: string;
  readonly locations: readonly SourceLocation[];
}

/** A deprecated field that an operation uses. */
export interface Deprecation {
  /** Such as `Query.pet`. */
  readonly coordinate: string;
  readonly reason: string;
  /** The day on which the field will be removed, such as `2030-12-05`. */
  readonly sunset: string | undefined;
}

/** The days on which deprecated fields will be removed. SDL has no place for them. */
const SUNSETS: Readonly<Record<string, Date>> = { 'Query.pet': LOOKUP_SUNSET };
/** The most bytes of an error at the status of an animal. */
const STATUS_ERROR_BYTES = 500;

export function toFragments({ definitions }: DocumentNode): Fragments {
  return new Map(definitions.flatMap((one) => (one.kind === Kind.FRAGMENT_DEFINITION ? [[one.name.value, one]] : [])));
}

/** What is known of an operation before its variables. */
export interface Inspection {
  readonly deprecations: readonly Deprecation[];
  /** The names of the variables that decide which fields `@skip` and `@include` leave. */
  readonly conditions: readonly string[];
  /** Whether all root fields are introspection and `__typename`. */
  readonly isSchemaOnly: boolean;
  readonly hasIntrospection: boolean;
}

/**
 * Goes through all fields of a valid operation, skipped ones too. The schema has neither interfaces nor unions, so a
 * fragment has the type of the place where it is spread.
 */
export function inspect(schema: GraphQLSchema, operation: OperationDefinitionNode, fragments: Fragments): Inspection {
  const deprecations = new Map<string, Deprecation>();
  const conditions = new Set<string>();
  let isSchemaOnly = true;
  let hasIntrospection = false;
  const rootType = schema.getRootType(operation.operation) as GraphQLObjectType;
  visitSet(operation.selectionSet, rootType);
  return { deprecations: [...deprecations.values()], conditions: [...conditions], isSchemaOnly, hasIntrospection };

  function visitSet({ selections }: SelectionSetNode, parent: GraphQLObjectType): void {
    for (const selection of selections) {
      for (const { arguments: [condition] = [] } of selection.directives ?? []) {
        if (condition?.value.kind === Kind.VARIABLE) conditions.add(condition.value.name.value);
      }
      if (selection.kind === Kind.FIELD) visitField(selection, parent);
      else visitSet(getFragment(selection, fragments).selectionSet, parent);
    }
  }

  function visitField({ name: { value: name }, selectionSet }: FieldNode, parent: GraphQLObjectType): void {
    if (name.startsWith('__')) {
      hasIntrospection ||= selectionSet !== undefined;
      return;
    }
    if (parent === rootType) isSchemaOnly = false;
    const { type, deprecationReason: reason } = parent.getFields()[name] as GraphQLField<unknown, unknown>;
    if (reason != null) {
      const coordinate = `${parent.name}.${name}`;
      const sunset = SUNSETS[coordinate]?.toISOString().slice(0, 10);
      deprecations.set(coordinate, { coordinate, reason, sunset });
    }
    if (selectionSet) visitSet(selectionSet, getNamedType(type) as GraphQLObjectType);
  }
}

function getFragment<T extends SelectionNode>(
  selection: Exclude<T, FieldNode>,
  fragments: Fragments,
): { readonly selectionSet: SelectionSetNode } {
  return selection.kind === Kind.FRAGMENT_SPREAD
    ? (fragments.get(selection.name.value) as FragmentDefinitionNode)
    : selection;
}

export interface CompileOptions {
  readonly schema: GraphQLSchema;
  readonly operation: OperationDefinitionNode;
  readonly fragments: Fragments;
  /** Of these, only the conditions are compiled in. */
  readonly variables: Variables;
  readonly errors: ErrorFormatter;
}

/**
 * Compiles the root fields of a valid operation, in response order, as `@skip` and `@include` leave them.
 * @throws RequestErrors if a condition is null
 */
export function compileFields(options: CompileOptions): readonly RootField[] {
  const { schema, operation, fragments } = options;
  const rootType = schema.getRootType(operation.operation) as GraphQLObjectType;
  const collect = (sets: readonly SelectionSetNode[]) => collectFields(sets, options);
  const collectBelow = (nodes: readonly FieldNode[]) =>
    collect(nodes.flatMap(({ selectionSet }) => (selectionSet ? [selectionSet] : [])));
  const compileWriter = createWriterCompiler(collectBelow, { 'Pet.status': STATUS_ERROR_BYTES });

  return [...collect([operation.selectionSet])].map(([responseKey, nodes]): RootField => {
    const [node] = nodes as [FieldNode];
    const name = node.name.value;
    const place = { responseKey, locations: locate(nodes), statuses: [] };
    if (name === '__typename') return { ...place, ...toConstant(JSON.stringify(rootType.name)) };
    if (name.startsWith('__')) return { ...place, ...compileIntrospection(schema, operation, nodes, fragments) };
    const definition = rootType.getFields()[name] as GraphQLField<unknown, unknown>;
    const { args, resolve, type } = definition;
    if (!resolve) throw new Error(`the root field ${name} has no resolver`);
    const toArguments = compileArguments(args, node);
    const toPrice = PRICES[name as keyof typeof PRICES] as (args: Variables) => Price;
    return {
      ...place,
      ...compileWriter(type, nodes),
      price: (given) => toPrice(toArguments(given)),
      resolve: (given, context) => resolve(undefined, given as Variables, context, undefined as never),
      statuses: getNamedType(type).name === 'Pet' ? findStatuses(collectBelow(nodes)) : [],
    };
  });
}

function findStatuses(selected: ReadonlyMap<string, readonly FieldNode[]>): readonly StatusField[] {
  return [...selected].flatMap(([responseKey, nodes]) =>
    nodes[0]?.name.value === 'status' ? [{ responseKey, locations: locate(nodes) }] : [],
  );
}

function locate(nodes: readonly { readonly loc?: ArgumentNode['loc'] }[]): readonly SourceLocation[] {
  return nodes
    .slice(0, MAX_LOCATIONS)
    .flatMap(({ loc }) => (loc ? [{ line: loc.startToken.line, column: loc.startToken.column }] : []));
}

/** Collects fields by response key: https://spec.graphql.org/September2026/#CollectFields() */
function collectFields(
  sets: readonly SelectionSetNode[],
  { fragments, variables, errors }: Pick<CompileOptions, 'fragments' | 'variables' | 'errors'>,
): ReadonlyMap<string, readonly FieldNode[]> {
  const fields = new Map<string, FieldNode[]>();
  const spread = new Set<string>();
  sets.forEach(collect);
  return fields;

  function collect({ selections }: SelectionSetNode): void {
    for (const selection of selections) {
      if (!isIncluded(selection)) continue;
      if (selection.kind === Kind.FIELD) {
        const key = (selection.alias ?? selection.name).value;
        const others = fields.get(key);
        if (others) others.push(selection);
        else fields.set(key, [selection]);
        continue;
      }
      if (selection.kind === Kind.FRAGMENT_SPREAD) {
        if (spread.has(selection.name.value)) continue;
        spread.add(selection.name.value);
      }
      collect(getFragment(selection, fragments).selectionSet);
    }
  }

  /** https://spec.graphql.org/September2026/#sec--skip */
  function isIncluded({ directives = [] }: SelectionNode): boolean {
    if (directives.length === 0) return true;
    return !readCondition('skip', false) && readCondition('include', true);

    function readCondition(name: string, absent: boolean): boolean {
      const directive = directives.find((one) => one.name.value === name);
      const value = directive?.arguments?.[0]?.value;
      if (!value) return absent;
      const condition = valueOf(value);
      if (typeof condition === 'boolean') return condition;
      throw new RequestErrors(422, [errors.variable(`The condition of @${name} must not be null.`, locate([value]))]);
    }
  }

  function valueOf(node: ValueNode): unknown {
    if (node.kind === Kind.BOOLEAN) return node.value;
    return node.kind === Kind.VARIABLE ? variables[node.name.value] : undefined;
  }
}

type ToArguments = (variables: Variables) => Variables;

/** An argument as the document gives it. */
interface GivenArgument extends Pick<GraphQLArgument, 'name' | 'type' | 'defaultValue'> {
  /** Without locations, because a location keeps all tokens of the document. */
  readonly node: ValueNode | undefined;
  readonly location: SourceLocation | undefined;
}

/** Compiles the arguments of a field. Without variables, they are made once. */
function compileArguments(definitions: readonly GraphQLArgument[], node: FieldNode): ToArguments {
  let isConstant = true;
  const given = definitions.map(({ name, type, defaultValue }): GivenArgument => {
    const value = node.arguments?.find((argument) => argument.name.value === name)?.value;
    if (!value) return { name, type, defaultValue, node: undefined, location: locate([node])[0] };
    visit(value, { [Kind.VARIABLE]: () => void (isConstant = false) });
    const plain = parseValue(print(value), { noLocation: true });
    return { name, type, defaultValue, node: plain, location: locate([value])[0] };
  });
  if (!isConstant) return (variables) => toArguments(given, variables);
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

/** @param json - the value of a field that asks the store nothing */
function toConstant(json: string): FieldParts {
  const price: Price = { cost: 0, maxObjects: 1, args: json };
  return { price: () => price, ...WRITTEN, maxBytes: Buffer.byteLength(json) };
}

/** The parts of a field whose arguments are its value, as JSON. */
const WRITTEN: Pick<FieldParts, 'resolve' | 'write'> = { resolve: (json) => json, write: String };

/**
 * Compiles an introspection field, which graphql-js executes while the field is priced: it asks the store nothing, and
 * its length is then known before anything runs.
 */
function compileIntrospection(
  schema: GraphQLSchema,
  operation: OperationDefinitionNode,
  selections: readonly FieldNode[],
  fragments: Fragments,
): FieldParts {
  // The other variables have been coerced, which graphql-js would do again.
  const variableDefinitions = operation.variableDefinitions?.filter(({ type }) => isPlain(type));
  const selectionSet: SelectionSetNode = { kind: Kind.SELECTION_SET, selections };
  const definitions = [{ ...operation, selectionSet, variableDefinitions }, ...fragments.values()];
  const document: DocumentNode = { kind: Kind.DOCUMENT, definitions };
  return {
    price(variableValues) {
      const { data, errors } = executeSync({ schema, document, variableValues });
      if (errors) throw new InvalidArgument('An argument of this introspection does not fit.', locate(selections)[0]);
      const json = JSON.stringify(Object.values(data ?? {})[0] ?? null);
      return { cost: 0, maxObjects: Buffer.byteLength(json), args: json };
    },
    ...WRITTEN,
    maxBytes: 0,
  };
}

function isPlain(type: TypeNode): boolean {
  return type.kind === Kind.NAMED_TYPE ? ['String', 'Boolean'].includes(type.name.value) : isPlain(type.type);
}

/** @throws StoreError if the schema has no operations of this type */
export function requireType(schema: GraphQLSchema, { operation }: OperationDefinitionNode): 'query' | 'mutation' {
  if (operation !== OperationTypeNode.SUBSCRIPTION && schema.getRootType(operation)) return operation;
  throw new StoreError('unprocessable_request', `The schema has no ${operation}s.`);
}
