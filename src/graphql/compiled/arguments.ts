import {
  getArgumentValues,
  isNonNullType,
  Kind,
  valueFromAST,
  type FieldNode,
  type GraphQLField,
  type ValueNode,
} from 'graphql';
import type { CompiledVariables, Variables, VariableValues } from './variables.js';

/**
 * Makes the arguments of a field.
 * @throws GraphQLError when one is missing or null that must not be
 */
export type ArgumentMaker = (values: VariableValues) => Readonly<Variables>;

/** Compiles the arguments of a field: constants are made once, plain variables are picked, the rest is left to graphql-js. */
export function compileArguments(
  definition: GraphQLField<unknown, unknown>,
  node: FieldNode,
  { names, toRecord }: CompiledVariables,
): ArgumentMaker {
  const byGraphqlJs: ArgumentMaker = (values) => getArgumentValues(definition, node, toRecord(values));
  const constants: Variables = {};
  const picked: { readonly name: string; readonly index: number; readonly isNonNull: boolean }[] = [];
  for (const { name, type, defaultValue } of definition.args) {
    const value = node.arguments?.find((argument) => argument.name.value === name)?.value;
    if (value === undefined) {
      if (defaultValue !== undefined) constants[name] = defaultValue;
      else if (isNonNullType(type)) return byGraphqlJs;
    } else if (value.kind === Kind.VARIABLE) {
      picked.push({ name, index: names.indexOf(value.name.value), isNonNull: isNonNullType(type) });
    } else {
      const constant: unknown = hasVariable(value) ? undefined : valueFromAST(value, type);
      if (constant === undefined) return byGraphqlJs;
      constants[name] = constant;
    }
  }
  if (picked.length === 0) return () => constants;
  return (values) => {
    const made: Variables = { ...constants };
    for (const { name, index, isNonNull } of picked) {
      const value = values[index];
      // An absent variable leaves the default, a null one may be an error: graphql-js has the rules for both.
      if (value === undefined || (value === null && isNonNull)) return byGraphqlJs(values);
      made[name] = value;
    }
    return made;
  };
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
