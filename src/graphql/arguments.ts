import {
  getArgumentValues,
  getNullableType,
  isInputObjectType,
  isNonNullType,
  Kind,
  valueFromAST,
  type FieldNode,
  type GraphQLField,
  type GraphQLInputType,
  type ValueNode,
} from 'graphql';
import type { DocumentText } from './document.js';
import type { CompiledVariables, Variables, VariableValues } from './variables.js';

/**
 * Makes the arguments of a field.
 * @param document - parsed again when graphql-js has to look at the arguments, which also words the errors
 * @throws GraphQLError when an argument is missing or null that must not be
 */
export type ArgumentMaker = (values: VariableValues, document: DocumentText) => Readonly<Variables>;

type ValueMaker = (values: VariableValues) => unknown;

/** What a value maker returns for a value that graphql-js should look at. */
const UNSURE = Symbol('unsure');

interface Input {
  readonly name: string;
  readonly type: GraphQLInputType;
  readonly defaultValue?: unknown;
}

/** Compiles the arguments of a field: constants are made once, variables are picked when the operation runs. */
export function compileArguments(
  definition: GraphQLField<unknown, unknown>,
  node: FieldNode,
  variables: CompiledVariables,
): ArgumentMaker {
  const start = node.loc?.start ?? 0;
  const make = compileMembers(definition.args, node.arguments ?? [], variables.names);
  return (values, document) => {
    const made = make(values);
    if (made !== UNSURE) return made as Variables;
    return getArgumentValues(definition, document.fieldAt(start), variables.toRecord(values));
  };
}

/** The arguments of a field, or the fields of an input object. */
function compileMembers(
  inputs: readonly Input[],
  nodes: readonly { readonly name: { readonly value: string }; readonly value: ValueNode }[],
  variableNames: readonly string[],
): ValueMaker {
  const members = inputs.map((input) => {
    const value = nodes.find(({ name }) => name.value === input.name)?.value;
    return { name: input.name, make: compileMember(input, value, variableNames) };
  });
  const makeAll: ValueMaker = (values) => {
    const made: Variables = {};
    for (const { name, make } of members) {
      const value = make(values);
      if (value === UNSURE) return UNSURE;
      if (value !== undefined) made[name] = value;
    }
    return made;
  };
  if (nodes.some(({ value }) => hasVariable(value))) return makeAll;
  const constant = makeAll([]);
  return () => constant;
}

function compileMember(
  { type, defaultValue }: Input,
  node: ValueNode | undefined,
  variableNames: readonly string[],
): ValueMaker {
  const absent = defaultValue === undefined && isNonNullType(type) ? UNSURE : defaultValue;
  if (node === undefined) return () => absent;
  if (node.kind === Kind.VARIABLE) {
    const index = variableNames.indexOf(node.name.value);
    const onNull = isNonNullType(type) ? UNSURE : null;
    return (values) => {
      const value = values[index];
      return value === undefined ? absent : (value ?? onNull);
    };
  }
  if (!hasVariable(node)) {
    const constant = valueFromAST(node, type);
    return constant === undefined ? () => UNSURE : () => constant;
  }
  const nullable = getNullableType(type);
  if (node.kind !== Kind.OBJECT || !isInputObjectType(nullable)) return () => UNSURE;
  return compileMembers(Object.values(nullable.getFields()), node.fields, variableNames);
}

function hasVariable(node: ValueNode): boolean {
  switch (node.kind) {
    case Kind.VARIABLE:
      return true;
    case Kind.LIST:
      return node.values.some(hasVariable);
    case Kind.OBJECT:
      return node.fields.some(({ value }) => hasVariable(value));
    default:
      return false;
  }
}
