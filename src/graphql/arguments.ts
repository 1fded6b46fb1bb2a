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
import type { DocumentSource } from './document.js';
import type { CompiledVariables, Variables, VariableValues } from './variables.js';

/**
 * Makes the arguments of a field.
 * @param source - parsed again when graphql-js has to look at the arguments, which also words the errors
 * @throws GraphQLError when an argument is missing or null that must not be
 */
export type ArgumentMaker = (values: VariableValues, source: DocumentSource) => Readonly<Variables>;

type ValueMaker = (values: VariableValues) => unknown;

/** What a value maker returns for a value that graphql-js should look at. */
const UNCOMPILED = Symbol('uncompiled');

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
  const make = compileMembers(definition.args, node.arguments ?? [], variables.names);
  return toArgumentMaker(make, definition, node.loc?.start ?? 0, variables);
}

// Makers are returned by functions of their own, so that they keep nothing of the document: thousands of them are kept.

function toArgumentMaker(
  make: ValueMaker,
  definition: GraphQLField<unknown, unknown>,
  start: number,
  { toRecord }: CompiledVariables,
): ArgumentMaker {
  return (values, source) => {
    const made = make(values);
    if (made !== UNCOMPILED) return made as Variables;
    return getArgumentValues(definition, source.fieldAt(start), toRecord(values));
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
  const make = toMemberMaker(members);
  return nodes.some(({ value }) => hasVariable(value)) ? make : toConstant(make([]));
}

function toMemberMaker(members: readonly { readonly name: string; readonly make: ValueMaker }[]): ValueMaker {
  return (values) => {
    const made: Variables = {};
    for (const { name, make } of members) {
      const value = make(values);
      if (value === UNCOMPILED) return UNCOMPILED;
      if (value !== undefined) made[name] = value;
    }
    return made;
  };
}

function toConstant(value: unknown): ValueMaker {
  return () => value;
}

function pickVariable(index: number, absent: unknown, onNull: unknown): ValueMaker {
  return (values) => {
    const value = values[index];
    return value === undefined ? absent : (value ?? onNull);
  };
}

function compileMember(
  { type, defaultValue }: Input,
  node: ValueNode | undefined,
  variableNames: readonly string[],
): ValueMaker {
  const absent = defaultValue === undefined && isNonNullType(type) ? UNCOMPILED : defaultValue;
  if (node === undefined) return toConstant(absent);
  if (node.kind === Kind.VARIABLE) {
    return pickVariable(variableNames.indexOf(node.name.value), absent, isNonNullType(type) ? UNCOMPILED : null);
  }
  if (!hasVariable(node)) return toConstant(toLiteral(node, type));
  const nullable = getNullableType(type);
  if (node.kind !== Kind.OBJECT || !isInputObjectType(nullable)) return toConstant(UNCOMPILED);
  return compileMembers(Object.values(nullable.getFields()), node.fields, variableNames);
}

function toLiteral(node: ValueNode, type: GraphQLInputType): unknown {
  const value = valueFromAST(node, type);
  return value === undefined ? UNCOMPILED : value;
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
