import {
  executeSync,
  getNamedType,
  isNonNullType,
  Kind,
  print,
  valueFromAST,
  visit,
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
  OperationTypeNode,
} from 'graphql';
import { findBrownout, LOOKUP_SUNSET, type Brownout } from '../pets/removal.js';
import { InvalidArgument, MAX_LOCATIONS, RequestErrors, toInputError } from './errors.js';
import { PRICES } from './prices.js';
import { createWriterCompiler } from './write.js';
import type { Variables, Compiled, RootField, Deprecation } from './types.js';

const LOOKUP_NAME = 'pet';
const LOOKUP = `Query.${LOOKUP_NAME}`;
/** SDL has no place for the day. */
const SUNSET = LOOKUP_SUNSET.toISOString().slice(0, 10);

type Fragments = ReadonlyMap<string, FragmentDefinitionNode>;

/**
 * Compiles an operation of a valid document. Of the variables, only the conditions are compiled in.
 * @throws RequestErrors if a condition is null
 */
export function compile(
  schema: GraphQLSchema,
  document: DocumentNode,
  root: OperationDefinitionNode,
  variables: Variables,
  brownouts: readonly Brownout[],
): Compiled {
  const fragments: Fragments = new Map(
    document.definitions.flatMap((one) => (one.kind === Kind.FRAGMENT_DEFINITION ? [[one.name.value, one]] : [])),
  );
  const rootType = schema.getRootType(root.operation) as GraphQLObjectType;
  const deprecations = new Map<string, Deprecation>();
  let size = 0;
  const collect = (sets: readonly SelectionSetNode[]) => {
    const collected = collectFields(sets, fragments, (selection) => isIncluded(selection, variables));
    size += collected.size;
    return collected;
  };
  const collectBelow = (nodes: readonly FieldNode[]) =>
    collect(nodes.flatMap(({ selectionSet }) => selectionSet ?? []));
  const compileWriter = createWriterCompiler(collectBelow, noteDeprecation);

  let namesLookup = false;
  visit(document, {
    // Only one type has a field of this name.
    Field({ name }) {
      namesLookup ||= name.value === LOOKUP_NAME;
    },
  });
  const isMeta = ([node]: readonly FieldNode[]): boolean => node?.name.value.startsWith('__') === true;
  const isSchemaOnly = [...collectFields([root.selectionSet], fragments, () => true).values()].every(isMeta);
  const fields = [...collect([root.selectionSet])].map(compileField);
  return { fields, deprecations: [...deprecations.values()], namesLookup, isSchemaOnly, size };

  function compileField([responseKey, nodes]: readonly [string, readonly FieldNode[]]): RootField {
    const [node] = nodes as [FieldNode];
    const name = node.name.value;
    const place = { responseKey, locations: locate(nodes), statuses: [] };
    if (name === '__typename') return { ...place, ...toFree(() => `"${rootType.name}"`) };
    if (isMeta(nodes)) return { ...place, ...compileIntrospection(schema, root, fragments, nodes) };
    const definition = rootType.getFields()[name] as GraphQLField<unknown, unknown>;
    const { args, resolve, type } = definition;
    if (!resolve) throw new Error(`the root field ${name} has no resolver`);
    noteDeprecation(rootType, definition);
    const { write, maxBytes } = compileWriter(type, nodes);
    const statuses = getNamedType(type).name === 'Pet' ? [...collectBelow(nodes)].flatMap(toStatus) : [];
    return {
      ...place,
      write,
      maxBytes,
      isAddition: root.operation === OperationTypeNode.MUTATION,
      toArguments: compileArguments(args, node),
      price: PRICES[name as keyof typeof PRICES] as RootField['price'],
      resolve: resolve as RootField['resolve'],
      statuses,
    };
  }

  function noteDeprecation(parent: GraphQLObjectType, field: GraphQLField<unknown, unknown>): void {
    const { deprecationReason: reason } = field;
    if (reason == null) return;
    const coordinate = `${parent.name}.${field.name}`;
    deprecations.set(coordinate, {
      coordinate,
      reason,
      sunset: coordinate === LOOKUP ? SUNSET : undefined,
      get brownout() {
        return coordinate === LOOKUP ? findBrownout(brownouts)?.text : undefined;
      },
    });
  }
}

function toStatus([responseKey, nodes]: readonly [string, readonly FieldNode[]]): RootField['statuses'] {
  return nodes[0]?.name.value === 'status' ? [{ responseKey, locations: locate(nodes) }] : [];
}

export function locate(nodes: readonly Pick<ASTNode, 'loc'>[]): readonly SourceLocation[] {
  const tokens = nodes.slice(0, MAX_LOCATIONS).flatMap(({ loc }) => (loc ? [loc.startToken] : []));
  return tokens.map(({ line, column }) => ({ line, column }));
}

/**
 * Collects fields by response key: https://spec.graphql.org/September2026/#CollectFields()
 * The schema has neither interfaces nor unions, so every fragment applies.
 */
function collectFields(
  sets: readonly SelectionSetNode[],
  fragments: Fragments,
  isWanted: (selection: SelectionNode) => boolean,
): ReadonlyMap<string, readonly FieldNode[]> {
  const fields = new Map<string, FieldNode[]>();
  const spread = new Set<string>();
  sets.forEach(collect);
  return fields;

  function collect({ selections }: SelectionSetNode): void {
    for (const selection of selections.filter(isWanted)) {
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
}

/** https://spec.graphql.org/September2026/#sec--skip */
function isIncluded({ directives = [] }: SelectionNode, variables: Variables): boolean {
  return directives.every(({ name, arguments: [argument] = [] }) => {
    const value = argument?.value;
    const condition =
      value?.kind === Kind.VARIABLE ? variables[value.name.value] : value?.kind === Kind.BOOLEAN && value.value;
    if (typeof condition === 'boolean') return condition === (name.value === 'include');
    const message = `The condition of @${name.value} must not be null.`;
    throw new RequestErrors(422, [toInputError(message, locate(value ? [value] : []))]);
  });
}

/** https://spec.graphql.org/September2026/#CoerceArgumentValues() */
function compileArguments(
  definitions: readonly GraphQLArgument[],
  field: FieldNode,
): (variables: Variables) => Variables {
  const given = definitions.map(({ name, type, defaultValue }) => {
    const node = field.arguments?.find((argument) => argument.name.value === name)?.value;
    return { name, type, defaultValue, node, location: locate([node ?? field])[0] };
  });
  return (variables) => {
    const args: Record<string, unknown> = {};
    for (const { name, type, defaultValue, node, location } of given) {
      const isAbsent = !node || (node.kind === Kind.VARIABLE && !Object.hasOwn(variables, node.name.value));
      const value = isAbsent ? defaultValue : valueFromAST(node, type, variables);
      if (value !== undefined) args[name] = value;
      // The rest has been validated.
      else if (!isAbsent) throw new InvalidArgument(`A variable in the argument "${name}" must not be null.`, location);
      else if (isNonNullType(type)) throw new InvalidArgument(`The argument "${name}" is required.`, location);
    }
    return args;
  };
}

type FieldParts = Omit<RootField, 'responseKey' | 'locations' | 'statuses'>;

/** A field that asks the store nothing: its price knows its value. */
function toFree(toJson: (variables: Variables) => string): FieldParts {
  return {
    isAddition: false,
    toArguments: (variables) => variables,
    price(variables) {
      const args = toJson(variables);
      return { cost: 0, maxObjects: Buffer.byteLength(args), args };
    },
    resolve: (_, json) => json,
    write: String,
    maxBytes: 1,
  };
}

/** The types that arguments of introspection have. */
const PLAIN: ReadonlySet<string> = new Set(['String', 'String!', 'Boolean', 'Boolean!']);

/** graphql-js executes introspection while it is priced, so that its length is known before anything runs. */
function compileIntrospection(
  schema: GraphQLSchema,
  node: OperationDefinitionNode,
  fragments: Fragments,
  selections: readonly FieldNode[],
): FieldParts {
  // The other variables have been coerced, which graphql-js would do again.
  const variableDefinitions = node.variableDefinitions?.filter(({ type }) => PLAIN.has(print(type)));
  const operation = { ...node, selectionSet: { kind: Kind.SELECTION_SET, selections }, variableDefinitions } as const;
  const document: DocumentNode = { kind: Kind.DOCUMENT, definitions: [operation, ...fragments.values()] };
  return toFree((variableValues) => {
    const { data, errors } = executeSync({ schema, document, variableValues });
    if (errors)
      throw new RequestErrors(
        422,
        errors.map(({ message, locations = [] }) => toInputError(message, locations)),
      );
    return JSON.stringify(Object.values(data ?? {})[0] ?? null);
  });
}
