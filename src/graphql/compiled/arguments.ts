import {
  getArgumentValues,
  isNonNullType,
  Kind,
  Location,
  Token,
  valueFromAST,
  visit,
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
  const kept = withoutTokens({ ...node, selectionSet: undefined });
  const byGraphqlJs: ArgumentMaker = (values) => getArgumentValues(definition, kept, toRecord(values));
  const constants: Variables = {};
  const picked: { name: string; index: number; isNonNull: boolean; isRequired: boolean }[] = [];
  for (const { name, type, defaultValue } of definition.args) {
    const value = node.arguments?.find((argument) => argument.name.value === name)?.value;
    const isNonNull = isNonNullType(type);
    const isRequired = isNonNull && defaultValue === undefined;
    if (value === undefined || value.kind === Kind.VARIABLE) {
      // The default stands where nothing is said, or only a variable that is absent.
      if (defaultValue !== undefined) constants[name] = defaultValue;
      if (value) picked.push({ name, index: names.indexOf(value.name.value), isNonNull, isRequired });
      else if (isRequired) return byGraphqlJs;
    } else {
      const constant: unknown = hasVariable(value) ? undefined : valueFromAST(value, type);
      if (constant === undefined) return byGraphqlJs;
      constants[name] = constant;
    }
  }
  if (picked.length === 0) return () => constants;
  return (values) => {
    const made: Variables = { ...constants };
    for (const { name, index, isNonNull, isRequired } of picked) {
      const value = values[index];
      // Errors are worded by graphql-js.
      if (value === undefined ? isRequired : value === null && isNonNull) return byGraphqlJs(values);
      if (value !== undefined) made[name] = value;
    }
    return made;
  };
}

/** A copy that knows its place in the text, for errors, by tokens of its own: those of the parser are linked, and keep the whole document. */
function withoutTokens(node: FieldNode): FieldNode {
  return visit(node, {
    enter: (entered) => {
      if (!entered.loc) return undefined;
      const { startToken, endToken, source } = entered.loc;
      return { ...entered, loc: new Location(unlinked(startToken), unlinked(endToken), source) };
    },
  });
}

function unlinked({ kind, start, end, line, column }: Token): Token {
  return new Token(kind, start, end, line, column);
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
